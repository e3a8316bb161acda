"""Where events go: as the environment and openlineage.yml say, and never a secret in words."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.serde import Serde
from openlineage.client.transport import CompositeTransport, HttpTransport

from tallyman.control.delivery.deliver import deliver, rebuilt
from tallyman.control.delivery.destination import Destination, find
from tallyman.control.delivery.destination_text import UNREADABLE, origin, without
from tallyman.control.delivery.send import flush
from tallyman.errors import DestinationUnusable, LineageNotSent
from tests.lineage_send.conftest import SpoolHome
from tests.world.collector import HANG, Answer, Collector, Told

Collectors = Callable[..., Collector]
PRODUCER = "https://example.org/tallyman"
RUN = "0190e4d0-0000-7000-8000-000000000001"
FACET = {"_producer": PRODUCER, "_schemaURL": "https://example.org/own.json"}
FULL = {
    "eventType": "COMPLETE",
    "eventTime": "2026-01-01T00:00:00.000001Z",
    "producer": PRODUCER,
    "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
    "run": {
        "runId": RUN,
        "facets": {
            "parent": {
                "_producer": PRODUCER,
                "_schemaURL": "https://openlineage.io/spec/facets/1-2-0/ParentRunFacet.json"
                "#/$defs/ParentRunFacet",
                "run": {"runId": RUN, "facets": {}},
                "job": {"namespace": "shop", "name": "all", "facets": {}},
            },
            "tallyman_ledger": {**FACET, "fates": {"PASSED": 3, "ERROR": 0}, "rate": 0.5},
        },
    },
    "job": {"namespace": "shop", "name": "sales", "facets": {"sql": {**FACET, "query": "x"}}},
    "inputs": [
        {
            "namespace": "file",
            "name": "in",
            "facets": {"schema": {**FACET, "fields": [{"name": "a", "type": "int"}]}},
            "inputFacets": {"dataQualityMetrics": {**FACET, "rowCount": 3, "columnMetrics": {}}},
        }
    ],
    "outputs": [
        {
            "namespace": "file",
            "name": "out",
            "facets": {},
            "outputFacets": {"outputStatistics": {**FACET, "rowCount": 3}},
        }
    ],
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


def test_the_environment_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the client puts there, every child process inherits."""
    monkeypatch.setenv("OPENLINEAGE_URL", "http://collector:5000")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "s3cret")
    before = dict(os.environ)
    destination = found()
    assert deliver(destination, {"no": "event"}) is not None
    assert dict(os.environ) == before
    assert destination.shown == "http://collector:5000"


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
    for folder, host in ((home, "p"), (here, "h")):
        (folder / "openlineage.yml").write_text(f"transport: {{type: http, url: 'http://{host}'}}")
        destination = found(here, home)
        assert destination.shown == f"http://{host}"
        assert isinstance(destination.client.transport, HttpTransport)
        assert destination.client.transport.config.auth.get_bearer() is None
    named.write_text("transport: {type: http, url: 'http://n'}")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(named))
    assert found(here, home).shown == "http://n"
    named.unlink()
    with pytest.raises(DestinationUnusable, match="OPENLINEAGE_CONFIG: there is no file"):
        find([here, home])


def test_variables_with_two_underscores_are_a_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "async_http")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", "http://two")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TIMEOUT", "1.5")
    monkeypatch.setenv("OPENLINEAGE__TAGS", '{"job": {"team": "ledger"}}')
    destination = found()
    transport = destination.client.transport
    assert isinstance(transport, HttpTransport), "in this thread, so that its failure is known"
    assert (transport.url, transport.timeout) == ("http://two", 1.5)
    assert transport.config.retry["total"] == 0
    assert destination.client.config.tags.job == {"team": "ledger"}


def test_the_address_of_the_environment_joins_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://env")
    text = "transport: {type: composite, transports: {a: {type: http, url: 'http://a'}}}"
    (tmp_path / "openlineage.yml").write_text(text)
    destination = found(tmp_path)
    assert isinstance(destination.client.transport, CompositeTransport)
    assert destination.shown == "http://a, http://env"


@pytest.mark.parametrize(
    ("url", "people_see"),
    [
        ("http://collector:5000", "http://collector:5000"),
        ("https://me:hunter2@collector/hunter2?token=hunter2", "https://collector"),
        ("https://[::1]:81/x", "https://[::1]:81"),
        ("http://me:hun/ter2@collector", UNREADABLE),
        ("http://me:12/hunter2@collector", UNREADABLE),
        ("http://me:hunter2#@collector", UNREADABLE),
        ("hunter2", UNREADABLE),
        ("http://[hunter2", UNREADABLE),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(url: str, people_see: str) -> None:
    assert origin(url) == people_see


@pytest.mark.parametrize(
    "text",
    [
        "transport: [hunter2",
        "transport: *hunter2",
        "hunter2",
        "transport: hunter2",
        "transport: {type: hunter2.hunter2}",
        "transport: {type: http, url: 'hunter2', auth: {type: api_key, apiKey: hunter2}}",
        "transport: {type: http, auth: {type: api_key, apiKey: hunter2}}",
        "transport: {type: http, url: 'http://me:hunter2@c', auth: {type: jwt}}",
        "transport: {type: composite}",
        "transport: {type: composite, transports: [hunter2]}",
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
    assert "hunter2" not in shown.replace("hunter2.hunter2", "")


def test_secrets_are_taken_out_of_words() -> None:
    assert without({"hunter2", "hunter22"}, "a\n hunter22,\thunter2") == "a ***, ***"
    assert len(without((), "x" * 5000)) == 300


def test_an_event_that_was_stored_is_sent_as_it_was(
    collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Serde.to_dict(rebuilt(FULL)) == FULL
    collector = collectors()
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    assert deliver(found(), FULL) is None
    [got] = collector.bodies
    [tag] = got["run"]["facets"].pop("tags")["tags"]
    assert tag["key"] == "openlineage_client_version"
    assert got == FULL


def test_what_is_no_event_is_refused_and_not_tried(
    collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = collectors()
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    for wrong in ({}, {**FULL, "eventTime": "yesterday"}, {**FULL, "run": {"runId": "1"}}):
        trouble = deliver(found(), wrong)
        assert trouble is not None
        assert trouble.refused
    assert collector.requests == 0


def test_filters_tags_transformers_and_files_of_the_client_work(tmp_path: Path) -> None:
    to = tmp_path / "told.jsonl"
    tagged = {"tags": {**FACET, "tags": [{"key": "own", "value": "1"}]}}
    config: dict[str, Any] = {
        "transport": {
            "type": "transform",
            "transformer_class": "openlineage.client.transport.transform."
            "JobNamespaceReplaceTransformer",
            "transformer_properties": {"new_job_namespace": "other"},
            "transport": {"type": "file", "log_file_path": str(to), "append": True},
        },
        "filters": [{"type": "exact", "match": "left out"}],
        "tags": {"run": {"team": "ledger"}},
    }
    (tmp_path / "openlineage.yml").write_text(json.dumps(config))
    destination = found(tmp_path)
    assert destination.shown == f"file {to}"
    run = {"runId": RUN, "facets": {**FULL["run"]["facets"], **tagged}}
    assert deliver(destination, {**FULL, "run": run}) is None
    assert deliver(destination, {**FULL, "job": {"namespace": "shop", "name": "left out"}}) is None
    [got] = [json.loads(line) for line in to.read_text().splitlines()]
    assert got["job"]["namespace"] == "other"
    assert got["run"]["facets"]["parent"]["job"]["namespace"] == "other"
    tags = {tag["key"]: tag["value"] for tag in got["run"]["facets"]["tags"]["tags"]}
    assert (tags["own"], tags["team"]) == ("1", "ledger")


def test_one_of_two_receivers_being_away_loses_nothing_for_it(
    shop: SpoolHome, collectors: Collectors
) -> None:
    well = collectors()
    away = collectors(answer=lambda n, _: 503 if n < 3 else 201)
    both = [{"type": "http", "url": one.url} for one in (well, away)]
    config = {"transport": {"type": "composite", "transports": both}}
    (shop.path / "openlineage.yml").write_text(json.dumps(config))
    events = shop.spool(2)
    for _ in range(2):
        with pytest.raises(LineageNotSent, match="503"):
            flush(shop.outbox)
    assert flush(shop.outbox).sent == 2
    assert away.taken == events
    assert list(dict.fromkeys(well.taken)) == events


def test_whoever_refuses_a_token_has_refused_no_event(
    shop: SpoolHome, collectors: Collectors
) -> None:
    collector = collectors()
    tokens = collectors()
    auth = {"type": "jwt", "apiKey": "k", "tokenEndpoint": f"{tokens.url}/token"}
    config = {"transport": {"type": "http", "url": collector.url, "auth": auth}}
    (shop.path / "openlineage.yml").write_text(json.dumps(config))
    shop.spool(1)
    with pytest.raises(LineageNotSent):
        flush(shop.outbox)
    assert shop.state().refused == 0
    assert shop.state().waiting == 1


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
