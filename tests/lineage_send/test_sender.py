"""Beside a run: events reach a collector that is well, and no other one slows the run."""

import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from tallyman.control.delivery import send
from tallyman.control.delivery.send import Sender, flush
from tallyman.errors import LineageNotSent
from tests.lineage_send.conftest import SpoolHome
from tests.world.collector import HANG, Answer, Collector, Told
from tests.world.scale import some
from tests.world.waiting import wait_until

KEY = "s3cret-of-the-shop"
Collectors = Callable[..., Collector]


def test_a_healthy_collector_has_everything_when_the_run_ends(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = collectors()
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    backlog = shop.spool(3)
    sender = Sender(shop.outbox).start()
    wait_until(lambda: len(collector.taken) == 3)
    later = shop.spool(2, first=3)
    sender.wake()
    wait_until(lambda: len(collector.taken) == 5)
    last = shop.spool(4, first=5)  # nobody woke it: close looks
    assert sender.close() is None
    assert collector.taken == backlog + later + last
    found = shop.state()
    assert (found.waiting, found.sent, found.refused) == (0, 9, 0)
    with shop.database.transaction() as tx:
        kept = tx.execute("SELECT count(body) AS n FROM lineage_events").fetchone()
    assert kept == {"n": 0}, "what was taken is not kept a third time"


@pytest.mark.parametrize("patience", some([0.2, 1.0], 1))
def test_a_hanging_collector_does_not_hold_up_the_end(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    collector = collectors(answer=lambda *_: HANG)
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    shop.spool(2)
    sender = Sender(shop.outbox).start()
    wait_until(lambda: collector.requests == 1)
    begun = time.monotonic()
    line = sender.close(patience_s=patience)
    assert patience * 0.9 < time.monotonic() - begun < patience + 0.5
    assert line is not None
    assert line.startswith(f"lineage: 2 events kept for {collector.url}: ")
    collector.released.set()


def test_after_a_failure_the_end_waits_for_nothing(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = collectors(answer=lambda *_: 503, says="down for repair")
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    shop.spool(1)
    sender = Sender(shop.outbox).start()
    wait_until(lambda: shop.state().attempts == 1)
    begun = time.monotonic()
    line = sender.close(patience_s=30)
    assert time.monotonic() - begun < 0.5
    assert line == (
        f"lineage: 1 event kept for {collector.url}: 503 Service Unavailable: down for repair "
        "(tallyman lineage flush)"
    )
    assert collector.requests == 1, "the client must not try by itself"


def test_pauses_grow_and_the_collector_that_comes_back_gets_all(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    at: list[float] = []

    def answer(n: int, _: Told) -> Answer:
        at.append(time.monotonic())
        return 500 if n < 5 else 201

    collector = collectors(answer=answer)
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    monkeypatch.setattr(send, "FIRST_PAUSE", 0.05)
    events = shop.spool(2)
    sender = Sender(shop.outbox).start()
    wait_until(lambda: shop.state().waiting == 0)
    assert sender.close() is None
    assert collector.taken == events
    pauses = [later - earlier for earlier, later in pairwise(at[:5])]
    assert all(pause > 0.05 * 2**n for n, pause in enumerate(pauses))


def test_what_the_collector_will_never_take_is_set_aside_and_the_rest_goes_on(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: int, told: Told) -> Answer:
        return 422 if told[1] == "job0001" else 201

    collector = collectors(answer=answer, says="eventTime is too old")
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    events = shop.spool(4)
    sender = Sender(shop.outbox).start()
    wait_until(lambda: len(collector.taken) == 3)
    line = sender.close()
    assert line == f"lineage: 1 event refused by {collector.url} (tallyman lineage status)"
    assert collector.taken == [events[0], *events[2:]]
    found = shop.answer("lineage", "status")[1]
    assert (found["waiting"], found["sent"], found["refused"]) == (0, 3, 1)
    [refusal] = found["refusals"]
    assert refusal["job"] == "job0001"
    assert refusal["reason"] == "422 Unprocessable Entity: eventTime is too old"

    collector.answer = lambda *_: 201
    assert shop.answer("lineage", "flush")[1]["sent"] == 0, "not without --refused"
    code, done = shop.answer("lineage", "flush", "--refused")
    assert (code, done["sent"], done["waiting"]) == (0, 1, 0)
    assert collector.taken[-1] == events[1]


def test_codes_that_tell_of_the_event_set_it_aside(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = collectors()
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    for code in (400, 409, 413, 422):
        collector.answer = lambda *_, code=code: code
        shop.spool(1)
        assert flush(shop.outbox).refused == 1, code
    assert (shop.state().waiting, shop.state().refused) == (0, 4)


def test_codes_that_tell_of_something_else_leave_it_where_it_is(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redirect too: followed, a POST becomes a GET, and its 200 would look like a yes; or the key
    goes to another address."""
    collector = collectors()
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    events = shop.spool(2)
    codes = (301, 302, 303, 304, 307, 308, 401, 403, 404, 408, 429, 500, 502, 504)
    for code in codes:
        collector.answer = lambda *_, code=code: code
        with pytest.raises(LineageNotSent, match=str(code)) as caught:
            flush(shop.outbox)
        assert (caught.value.sent, caught.value.waiting) == (0, 2)
    assert collector.requests == len(codes)
    collector.answer = lambda *_: 201
    assert flush(shop.outbox).sent == 2
    assert collector.taken == events


def test_a_wrong_key_keeps_the_events_and_is_not_shown(
    shop: SpoolHome,
    collectors: Collectors,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    collector = collectors(key="right", says=f"no entry with {KEY}")
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    monkeypatch.setenv("OPENLINEAGE_API_KEY", KEY)
    events = shop.spool(2)
    sender = Sender(shop.outbox).start()
    wait_until(lambda: shop.state().attempts == 1)
    line = sender.close()
    seen = [line, shop.state().last_error, *map(str, shop.tallyman("lineage", "status"))]
    seen += capfd.readouterr()
    assert "401 Unauthorized: no entry with ***" in str(line)
    assert not [text for text in seen if KEY in str(text)]
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "right")
    assert flush(shop.outbox).sent == 2
    assert collector.taken == events


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://no-such-host.invalid", "not known|resolution|No address"),
        ("http://127.0.0.1:1", "Connection refused"),
    ],
)
def test_a_collector_that_is_not_there_is_named(
    shop: SpoolHome, monkeypatch: pytest.MonkeyPatch, url: str, reason: str
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", url)
    shop.spool(1)
    with pytest.raises(LineageNotSent, match=f"to {url}, 1 still waiting: .*({reason})"):
        flush(shop.outbox)


def test_a_broken_configuration_is_told_and_its_correction_is_noticed(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = collectors()
    file = shop.path / "openlineage.yml"
    file.write_text(f"transport:\n  type: http\n  auth: {{apiKey: *{KEY}}}\n")
    monkeypatch.setattr(send, "FIRST_PAUSE", 0.05)
    events = shop.spool(1)
    sender = Sender(shop.outbox).start()
    wait_until(lambda: shop.state().attempts > 0)
    problem = f"{file}: it is not valid YAML at line 3"
    assert shop.state().last_error == problem
    found = shop.answer("lineage", "status")[1]
    assert (found["destination"], found["problem"]) == (None, problem)
    file.write_text(f"transport: {{type: http, url: '{collector.url}'}}\n")
    wait_until(lambda: shop.state().waiting == 0)
    assert collector.taken == events
    assert sender.close() is None


def test_nothing_configured_starts_nothing_and_keeps_everything(shop: SpoolHome) -> None:
    shop.spool(2)
    sender = Sender(shop.outbox).start()
    sender.wake()
    begun = time.monotonic()
    assert sender.close() is None
    assert time.monotonic() - begun < 1
    wait_until(lambda: "tallyman-lineage" not in [one.name for one in threading.enumerate()])
    assert shop.state().waiting == 2
    assert shop.state().attempts == 0


def test_a_database_that_goes_away_fails_nothing(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = collectors(takes_s=0.3)
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    events = shop.spool(3)
    sender = Sender(shop.outbox).start()
    wait_until(lambda: collector.requests == 1)
    with shop.database.transaction() as tx:
        tx.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks "
            "WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        )
    monkeypatch.setattr(send, "FIRST_PAUSE", 0.05)
    wait_until(lambda: shop.state().waiting == 0)
    assert sender.close() is None
    assert collector.taken == [events[0], *events], "its mark was lost with the connection"
