"""Several processes of a project: each event once and in order, also when one of them is killed."""

import os
import random
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tallyman.control.delivery.outbox import Outbox
from tallyman.control.delivery.send import Sender, flush
from tallyman.project import Project
from tests.forked import Running
from tests.lineage_send.conftest import OWNER, SpoolHome, spool_events
from tests.world.collector import DROP, Answer, Collector, Told
from tests.world.waiting import wait_until

Collectors = Callable[..., Collector]


def run_beside(home: Path, count: int) -> None:
    """What a run does: it adds events as it goes, and closes its sender at the end."""
    project = Project.open(home)
    database = project.database
    sender = Sender(Outbox.of(database, OWNER, home)).start()
    run = uuid.uuid4()
    for number in range(count):
        spool_events(database, run, 1, first=number)
        sender.wake()
    sender.close()
    project.close()


def in_process(shop: SpoolHome, work: Callable[[], None]) -> Running:
    return Running(shop.path, os.environ, work)


def test_runs_and_flushes_at_once_send_each_event_once_and_in_order(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(3)

    def moody(_: int, __: Told) -> Answer:
        return chance.choice((503, 500, DROP, *(200, 201, 202) * 3))

    collector = collectors(answer=moody)
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    runs = [in_process(shop, partial(run_beside, shop.path, 25)) for _ in range(3)]
    flushes = [shop.start("lineage", "flush") for _ in range(2)]
    ended = [one.wait() for one in runs]
    assert [code for code, _, _ in ended] == [0, 0, 0], ended
    for one in flushes:
        assert one.wait()[0] in (0, 1)
    collector.answer = lambda *_: 201
    flush(shop.outbox)
    assert collector.most_at_once == 1, "only one process sends at a time"
    assert len(collector.taken) == len(set(collector.taken)) == 75
    names = {run for run, _ in collector.taken}
    assert len(names) == 3
    for run in names:
        jobs = [job for told, job in collector.taken if told == run]
        assert jobs == sorted(jobs)
    assert shop.state().sent == 75


def test_many_flushes_of_one_backlog_keep_its_order(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = collectors(takes_s=0.005)
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    events = shop.spool(60)
    flushes = [shop.start("lineage", "flush", "--json") for _ in range(4)]
    ended = [one.wait() for one in flushes]
    assert [code for code, _, _ in ended] == [0, 0, 0, 0], ended
    assert collector.taken == events
    assert collector.most_at_once == 1


def test_killed_before_the_receiver_said_yes_the_event_is_sent_by_the_next(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock goes with the process: nobody has to wait for a dead one."""
    asked: list[Told] = []

    def answer(n: int, told: Told) -> Answer:
        asked.append(told)
        return "hang" if n == 3 else 201

    collector = collectors(answer=answer)
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    events = shop.spool(6)
    process = shop.start("lineage", "flush")
    wait_until(lambda: len(asked) == 3)
    process.kill()
    begun = time.monotonic()
    assert flush(shop.outbox).sent == 4
    assert time.monotonic() - begun < 5
    assert collector.taken == events


def test_killed_between_yes_and_the_mark_only_that_event_comes_twice(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = collectors()
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    events = shop.spool(5)

    def slow_third(n: int, _: Told) -> Answer:
        collector.takes_s = 60 if n == 3 else 0
        return 201

    collector.answer = slow_third
    process = shop.start("lineage", "flush")
    wait_until(lambda: len(collector.taken) == 3)
    process.kill()
    assert flush(shop.outbox).sent == 3
    assert collector.taken == [*events[:3], *events[2:]]


def test_a_run_ends_in_time_while_another_process_holds_the_line(
    shop: SpoolHome, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = collectors(answer=lambda *_: "hang")
    monkeypatch.setenv("OPENLINEAGE_URL", collector.url)
    shop.spool(1)
    other = shop.start("lineage", "flush")
    wait_until(lambda: collector.requests == 1)
    sender = Sender(shop.outbox).start()
    shop.spool(1, first=1)
    sender.wake()
    begun = time.monotonic()
    line = sender.close(patience_s=0.4)
    assert time.monotonic() - begun < 0.9
    assert "2 events kept" in str(line)
    assert collector.requests == 1
    other.kill()
