"""Accidents in any order leave one effective completion for each task; planted bugs do not."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from tallyman.control.dispatch import claim, emit, report, steps
from tallyman.domain.task.event import Event
from tallyman.domain.task.fence import Fence, ReportVerdict, judge
from tallyman.registry.task import leases, tasks, wakeups
from tallyman.registry.task.events import Events
from tallyman.registry.task.pools import Pools
from tests.dispatch.chaos import Chaos
from tests.dispatch.desk import Desk
from tests.world.scale import FULL

SEEDS = range(200) if FULL else range(3)
TRIES = 12
"""So many seeds may miss a planted bug."""
Plant = Callable[[pytest.MonkeyPatch, Desk], None]


def swap(patch: pytest.MonkeyPatch, module: Any, name: str, *pairs: tuple[str, str]) -> None:
    text = getattr(module, name)
    for old, new in pairs:
        assert old in text, (name, old)
        text = text.replace(old, new)
    patch.setattr(module, name, text)


def attempt_gate_removed(patch: pytest.MonkeyPatch, _: Desk) -> None:
    patch.setattr(Fence, "matches", lambda *_: True)
    patch.setattr(report, "judge", lambda *_: ReportVerdict.APPLY)
    gate = "AND attempt = %(attempt)s AND lease_token = %(token)s"
    swap(patch, leases, "END", (gate, ""), ("AND status = ANY(%(sources)s)", ""))


def notified_outside_of_the_transaction(patch: pytest.MonkeyPatch, _: Desk) -> None:
    died = "AND random() < 0.5 AND status = 'Queued'"  # in between
    swap(patch, wakeups, "NOTIFY_TASKS", ("AND status = 'Queued'", died))


def only_the_first_lane_is_looked_at(patch: pytest.MonkeyPatch, _: Desk) -> None:
    swap(patch, tasks, "LOCK_NEXT", ("lane > heads.lane", "false"))


def tasks_of_an_asset_not_counted(patch: pytest.MonkeyPatch, _: Desk) -> None:
    patch.setattr(Pools, "running", lambda *_: 0)
    swap(patch, tasks, "LOCK_NEXT", ("lane = '' OR", "true OR"))


def held_or_ended_tasks_are_claimed(patch: pytest.MonkeyPatch, _: Desk) -> None:
    swap(patch, tasks, "LOCK_NEXT", ("status = 'Queued'", "status IN ('Queued', 'Completed')"))
    swap(patch, leases, "CLAIM", ("AND status = ANY(%(sources)s)", ""))
    patch.setattr(claim, "refusal", lambda _: None)


def event_id_by_chance(patch: pytest.MonkeyPatch, _: Desk) -> None:
    patch.setattr(Event, "id", lambda *_: uuid4())


def slot_not_released(patch: pytest.MonkeyPatch, _: Desk) -> None:
    swap(patch, leases, "END", ("WHERE s.task_id = ended.id", "WHERE false"))


def lease_forgotten_when_given_up(patch: pytest.MonkeyPatch, _: Desk) -> None:
    forget = "lease_token = CASE WHEN %(failed)s THEN NULL ELSE lease_token END, error ="
    swap(patch, leases, "END", ("error = %(error)s::jsonb,\n            failures",
                                f"{forget} %(error)s::jsonb,\n            failures"))  # fmt: skip


def replayed_events_make_tasks_again(patch: pytest.MonkeyPatch, _: Desk) -> None:
    real = Events.add

    def add(self: Events, producer: Any, events: Any) -> Any:
        real(self, producer, events)
        return list(events)

    patch.setattr(Events, "add", add)
    patch.setattr(emit, "event_key", lambda _: str(uuid4()))


def cancel_ignored(patch: pytest.MonkeyPatch, _: Desk) -> None:
    patch.setattr(
        report, "judge", lambda task, said: judge(replace(task, cancel_requested_at=None), said)
    )


def events_in_a_transaction_of_their_own(patch: pytest.MonkeyPatch, desk: Desk) -> None:
    real, transaction = emit.record, desk.database.transaction

    def record(_: Any, producer: Any, events: Any) -> Any:
        with transaction() as other:
            return real(other, producer, events)

    patch.setattr(emit, "record", record)


def slots_not_counted(patch: pytest.MonkeyPatch, _: Desk) -> None:
    swap(patch, tasks, "LOCK_NEXT", ("NOT (SELECT p.unlimited", "false AND (SELECT p.unlimited"))


def repeated_completion_counts_again(patch: pytest.MonkeyPatch, _: Desk) -> None:
    patch.setattr(report, "judge", lambda *given: judge(*given) and ReportVerdict.APPLY)
    swap(patch, leases, "END", ("AND status = ANY(%(sources)s)", ""))


def attempt_does_not_rise(patch: pytest.MonkeyPatch, _: Desk) -> None:
    swap(patch, leases, "CLAIM", ("attempt = attempt + 1", "attempt = greatest(attempt, 1)"))


def nobody_reaps(patch: pytest.MonkeyPatch, _: Desk) -> None:
    patch.setattr(steps, "reap", lambda *_, **__: 0)


def retries_forgotten(patch: pytest.MonkeyPatch, _: Desk) -> None:
    patch.setattr(steps, "requeue", lambda *_: 0)


BUGS: tuple[Plant, ...] = (
    attempt_gate_removed,
    notified_outside_of_the_transaction,
    only_the_first_lane_is_looked_at,
    tasks_of_an_asset_not_counted,
    held_or_ended_tasks_are_claimed,
    event_id_by_chance,
    slot_not_released,
    lease_forgotten_when_given_up,
    replayed_events_make_tasks_again,
    cancel_ignored,
    events_in_a_transaction_of_their_own,
    slots_not_counted,
    repeated_completion_counts_again,
    attempt_does_not_rise,
    nobody_reaps,
    retries_forgotten,
)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_any_accidents_everything_is_done_once(desk: Desk, seed: int) -> None:
    chaos = Chaos(desk, int(os.environ.get("TALLYMAN_SEED", "0")) + seed)
    assert chaos.run() == []
    assert sum(chaos.completed.values()) >= 4, "nothing happened"


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(desk: Desk, monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(monkeypatch, desk)
    for seed in range(TRIES):
        if Chaos(desk, seed).run():
            return
        desk.empty()
    pytest.fail(f"{TRIES} seeds did not find it")
