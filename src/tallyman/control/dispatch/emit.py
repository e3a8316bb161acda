"""Emit: events of a task become rows, and each makes one task per listener, in the same
transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallyman.control.dispatch.partitions import task_scope
from tallyman.domain.task.event import Event, Producer
from tallyman.domain.task.fence import Fence
from tallyman.domain.task.state import TaskStatus
from tallyman.domain.task.task import TARGET, NewTask, Task, TriggerKind, event_key
from tallyman.domain.version.owner import Owner
from tallyman.errors import UsageError
from tallyman.registry.database import Transaction
from tallyman.registry.task.events import Events, Listeners
from tallyman.registry.task.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Emitted:
    accepted: int
    duplicates: int
    tasks: int
    """How many tasks the accepted events made."""


NOTHING = Emitted(0, 0, 0)


def emit(tx: Transaction, owner: Owner, fence: Fence, events: Sequence[Event]) -> Emitted:
    """Accept events of a running attempt, or raise StaleAttempt and accept none."""
    task = Tasks(tx).lock(fence.task, owner)
    if not fence.matches(task) or task.status is not TaskStatus.RUNNING:
        raise fence.stale(task)
    refuse_own(task, events)
    return record(tx, task.producer, events)


def refuse_own(task: Task, events: Sequence[Event]) -> None:
    """Refuse events that a worker emits for a target: its commit does, in its own transaction, and
    an event that is there already would make nothing then."""
    if task.kind == TARGET and events:
        raise UsageError(f"task {task.id} makes a target: its events are those of its commit")


def record(tx: Transaction, producer: Producer, events: Sequence[Event]) -> Emitted:
    """Record events of a task or commit that the caller has locked. An event that is there already
    makes nothing: its tasks were made with it."""
    if not events:
        return NOTHING
    added = Events(tx).add(producer, events)
    made = Tasks(tx).add(_reactions(tx, producer, added))
    return Emitted(len(added), len(events) - len(added), len(made))


def _reactions(tx: Transaction, producer: Producer, events: Sequence[Event]) -> list[NewTask]:
    listeners = Listeners(tx).of(producer.owner.org, sorted({event.dataset for event in events}))
    return [
        NewTask(
            template=template,
            trigger=TriggerKind.EVENT,
            dedupe_key=event_key(event.id(producer.id)),
            scope=scope,
            event=event.id(producer.id),
            held_by=held_by,
        )
        for event in events
        for template, held_by in listeners.get(event.dataset, [])
        if (scope := task_scope(template, event.scope)) is not None
    ]
