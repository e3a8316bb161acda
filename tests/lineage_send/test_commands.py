"""`tallyman lineage status` and `flush`, as people use them."""

from collections.abc import Callable

import pytest

from tallyman.control.delivery.send import Sender
from tests.lineage_send.conftest import SpoolHome
from tests.world.collector import Answer, Collector, Told
from tests.world.waiting import wait_until

Collectors = Callable[..., Collector]


def test_after_an_outage_status_tells_and_flush_delivers(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = collectors(answer=lambda *_: 503)
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    events = shop.spool(3)
    sender = Sender(shop.outbox).start()
    wait_until(lambda: shop.state().attempts == 1)
    sender.close()

    code, text, _ = shop.printed("lineage", "status")
    assert code == 0
    for words in (
        f"destination   {collector.url}",
        "waiting       3",
        "oldest        20",
        "sent          0",
        "refused       0",
        "last error    503 Service Unavailable (tried once)",
        "tallyman lineage flush",
    ):
        assert words in text
    code, failed = shop.answer("lineage", "flush")
    assert code == 1
    message = failed["error"]["message"]
    assert message == (
        f"0 lineage events were sent to {collector.url}, 3 still waiting: 503 Service Unavailable"
    )
    assert "tallyman lineage flush" in failed["error"]["hint"]

    collector.answer = lambda *_: 201
    code, text, err = shop.printed("lineage", "flush")
    assert (code, text.strip(), err) == (0, f"3 sent to {collector.url}", "")
    assert collector.taken == events
    code, found = shop.answer("lineage", "status")
    assert (found["waiting"], found["oldest_at"], found["sent"]) == (0, None, 3)
    assert found["last_error"] is None
    assert shop.printed("lineage", "flush")[1].strip() == "no events are waiting"


def test_it_stops_at_the_first_failure_with_what_was_done(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = collectors(answer=lambda n, _: 201 if n < 3 else 500)
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    events = shop.spool(5)
    code, _, err = shop.printed("lineage", "flush")
    assert code == 1
    assert f"2 lineage events were sent to {collector.url}, 3 still waiting: 500" in err
    assert (collector.taken, collector.requests) == (events[:2], 3)


def test_what_is_refused_is_an_exit_code_and_a_table(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: int, told: Told) -> Answer:
        return 422 if told[1] == "job0000" else 201

    collector = collectors(answer=answer, says="[no] such job")
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    events = shop.spool(2)
    code, done = shop.answer("lineage", "flush")
    assert (code, done["sent"], done["refused"], done["waiting"]) == (1, 1, 1, 0)
    assert collector.taken == events[1:]
    _, text, _ = shop.printed("lineage", "status")
    assert "422 Unprocessable Entity: [no] such job" in text
    assert "tallyman lineage flush --refused" in text


def test_with_nothing_configured_it_says_how_and_keeps_them(
    shop: SpoolHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.spool(2)
    code, text, _ = shop.printed("lineage", "status")
    assert code == 0
    assert "not configured" in text
    assert "export OPENLINEAGE_URL=" in text
    code, failed = shop.answer("lineage", "flush")
    assert (code, failed["error"]["code"]) == (1, "no_lineage_destination")
    assert "2 still waiting" in failed["error"]["message"]
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert "disabled" in shop.printed("lineage", "status")[1]
    assert "OPENLINEAGE_DISABLED" in shop.answer("lineage", "flush")[1]["error"]["message"]
    assert shop.state().waiting == 2
