"""What a run tells reaches a collector once and in order, however unwell it is."""

from __future__ import annotations

import time

from tests.lineage_run.conftest import Told
from tests.world.collector import HANG, Collector
from tests.world.numbers import NumbersHome

DAY = "2025-01-01"


def run(home: NumbersHome, name: str, **more: str) -> Told:
    """In a process of its own: what is not sent when it ends is not sent."""
    words = ("run", "+sum", "--partition", DAY, "--run-id", name, "--json")
    reply = home.forked(*words, **more)
    assert reply.code == 0, str(reply)
    return Told.by(home, name)


def test_a_collector_that_fails_half_the_time_gets_everything_once_and_in_order(
    home: NumbersHome, collector: Collector
) -> None:
    collector.answer = lambda n, _: 503 if n % 2 else 201
    told = run(home, "flaky", OPENLINEAGE_URL=collector.url)
    for _ in range(2 * len(told.events)):
        if home.ok("lineage", "status")["waiting"] == 0:
            break
        home.tallyman("lineage", "flush", OPENLINEAGE_URL=collector.url)
    assert len(told.events) > 8
    assert collector.bodies == told.events


def test_a_collector_that_never_answers_holds_up_nobody(
    home: NumbersHome, collector: Collector
) -> None:
    run(home, "warm")
    started = time.monotonic()
    run(home, "plain")  # nothing to make, so that what is measured is not Spark
    without = time.monotonic() - started
    collector.answer = lambda _n, _told: HANG
    started = time.monotonic()
    words = ("run", "+sum", "--partition", DAY, "--run-id", "hung", "--json")
    reply = home.forked(*words, OPENLINEAGE_URL=collector.url)
    assert reply.code == 0, str(reply)
    assert time.monotonic() - started < without + 10  # its own timeouts are longer than that
    assert "kept" in reply.json["notes"][0]
    assert home.ok("lineage", "status")["waiting"] > 0


def test_when_it_is_disabled_only_the_folder_is_told(home: NumbersHome) -> None:
    told = run(home, "quiet", OPENLINEAGE_DISABLED="true")
    assert told.words("scenario") == ["START", "COMPLETE"]
    assert home.ok("lineage", "status")["waiting"] == 0
