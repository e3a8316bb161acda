"""Where events go: as the environment and openlineage.yml say, and never a secret in words."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tallyman.control.delivery.deliver import deliver
from tallyman.control.delivery.destination import Destination, find
from tallyman.control.delivery.send import flush
from tallyman.errors import DestinationUnusable, LineageNotSent
from tests.lineage_send.conftest import SpoolHome
from tests.world.collector import HANG, Answer, Collector, Told

Collectors = Callable[..., Collector]
PRODUCER = "https://example.org/tallyman"
RUN = "0190e4d0-0000-7000-8000-000000000001"
FULL = {
    "eventType": "COMPLETE",
    "eventTime": "2026-01-01T00:00:00.000001Z",
    "producer": PRODUCER,
    "run": {"runId": RUN, "facets": {"own": {"fates": {"PASSED": 3}, "rate": 0.5}}},
    "job": {"namespace": "shop", "name": "größe", "facets": {}},
    "inputs": [],
    "outputs": [],
}


def found(*folders: Path) -> Destination:
    destination = find(folders)
    assert destination is not None
    return destination


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OPENLINEAGE_URL": "http://c", "OPENLINEAGE_DISABLED": "True"},
        {"OPENLINEAGE__TRANSPORT__TYPE": "console"},
        {"OPENLINEAGE__TRANSPORT__TYPE": "noop"},
    ],
)
def test_where_nobody_takes_them_nothing_is_sent_or_printed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    variables: dict[str, str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find([tmp_path]) is None
    assert capfd.readouterr() == ("", "")


def test_the_nearest_file_counts_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The key of one file must not reach the address of another."""
    users = Path.home() / ".openlineage"
    users.mkdir()
    here, home, named = (tmp_path / name for name in ("here", "home", "other.yml"))
    here.mkdir()
    home.mkdir()
    auth = "auth: {type: api_key, apiKey: of-the-user}"
    (users / "openlineage.yml").write_text(f"transport: {{type: http, url: 'http://u', {auth}}}")
    assert found(here, home).shown == "http://u"
    assert found(here, home).headers == {"Authorization": "Bearer of-the-user"}
    for folder, host in ((home, "p"), (here, "h")):
        (folder / "openlineage.yml").write_text(f"transport: {{type: http, url: 'http://{host}'}}")
        destination = found(here, home)
        assert (destination.shown, destination.headers) == (f"http://{host}", {})
    named.write_text("transport: {type: http, url: 'http://n'}")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(named))
    assert found(here, home).shown == "http://n"
    named.unlink()
    with pytest.raises(DestinationUnusable, match="OPENLINEAGE_CONFIG: there is no file"):
        find([here, home])


def test_variables_with_two_underscores_are_a_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", "https://two/base/")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TIMEOUT", "1.5")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__AUTH", '{"type": "api_key", "apiKey": "k-e-y"}')
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__CUSTOM_HEADERS__X_TEAM", "ledger")
    destination = found()
    assert (destination.url, destination.timeout_s) == ("https://two/base/api/v1/lineage", 1.5)
    assert destination.headers == {"x_team": "ledger", "Authorization": "Bearer k-e-y"}


def test_the_key_of_the_environment_goes_to_its_address_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://env")
    monkeypatch.setenv("OPENLINEAGE_ENDPOINT", "events")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "k-e-y")
    file = tmp_path / "openlineage.yml"
    file.write_text("transport: {type: http, url: 'http://file'}")
    assert (found(tmp_path).url, found(tmp_path).headers) == ("http://file/api/v1/lineage", {})
    file.write_text("transport: {type: http, timeout: 7}")
    destination = found(tmp_path)
    assert (destination.url, destination.timeout_s) == ("http://env/events", 7)
    assert destination.headers == {"Authorization": "Bearer k-e-y"}


@pytest.mark.parametrize(
    ("url", "people_see"),
    [
        ("http://collector:5000", "http://collector:5000"),
        ("https://collector/hunter2?token=hunter2", "https://collector"),
        ("https://[::1]:81/x", "https://[::1]:81"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(
    monkeypatch: pytest.MonkeyPatch, url: str, people_see: str
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", url)
    assert found().shown == people_see


@pytest.mark.parametrize(
    "text",
    [
        "transport: [hunter2",
        "transport: *hunter2",
        "hunter2",
        "transport: hunter2",
        "transport: {type: hunter2}",
        "transport: {url: 'http://hunter2'}",
        "transport: {type: file}",
        "transport: {type: http, url: 'http://me:hunter2@c'}",
        "transport: {type: http, url: 'http://me:hun/ter2@c'}",
        "transport: {type: http, url: 'http://[hunter2'}",
        "transport: {type: http, url: 'http://c', timeout: hunter2}",
        "transport: {type: http, url: 'hunter2', auth: {type: api_key, apiKey: hunter2}}",
        "transport: {type: http, auth: {type: api_key, apiKey: hunter2}}",
        "transport: {type: http, url: 'http://c', auth: {type: jwt, apiKey: hunter2}}",
        "transport: {type: http, url: 'http://c'}\nfilters: [{kind: hunter2}]",
    ],
)
def test_a_broken_file_is_named_and_not_quoted(
    tmp_path: Path, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "openlineage.yml"
    file.write_text(text)
    with pytest.raises(DestinationUnusable) as caught:
        find([tmp_path])
    shown = f"{caught.value} {caught.value.facts()} {capfd.readouterr()}"
    assert str(file) in shown
    assert "hunter2" not in shown


def test_secrets_are_taken_out_of_words() -> None:
    headers = {"Authorization": "Bearer hunter22", "X-Key": "hunter2"}
    to = Destination(shown="x", headers=headers)
    assert to.without_secrets("a\n hunter22,\thunter2, Bearer hunter22") == "a ***, ***, ***"
    assert len(to.without_secrets("x" * 5000)) == 300


def test_an_event_that_was_stored_is_sent_as_it_was(
    collectors: Collectors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    collector = collectors(key="right")
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "right")
    to = tmp_path / "events.jsonl"
    (tmp_path / "openlineage.yml").write_text(f"transport: {{type: file, log_file_path: {to}}}")
    assert found(tmp_path).shown == f"file {to}"
    for _ in range(2):
        assert deliver(found(), FULL) is None
        assert deliver(found(tmp_path), FULL) is None
    assert collector.bodies == [FULL, FULL]
    assert [json.loads(line) for line in to.read_text().splitlines()] == [FULL, FULL]


def test_a_file_that_cannot_be_written_keeps_the_events(tmp_path: Path) -> None:
    trouble = deliver(Destination(shown="x", file=tmp_path), FULL)
    assert trouble is not None
    assert (trouble.reason, trouble.refused) == ("Is a directory", False)


def test_a_slow_answer_is_given_up_after_the_configured_time(
    shop: SpoolHome, collectors: Collectors
) -> None:
    def answer(_: int, __: Told) -> Answer:
        return HANG

    collector = collectors(answer=answer)
    config = {"transport": {"type": "http", "url": collector.url, "timeout": 0.2}}
    (shop.path / "openlineage.yml").write_text(json.dumps(config))
    shop.spool(1)
    with pytest.raises(LineageNotSent, match="no answer in time"):
        flush(shop.outbox)
    assert collector.requests == 1
