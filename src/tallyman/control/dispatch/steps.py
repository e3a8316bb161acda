"""The steps of the loops. Any number of servers may take them at once: each takes rows that no
other has locked, and a step that died is taken again by anybody."""

from __future__ import annotations

import logging

from tallyman.control.dispatch.cron import Cron
from tallyman.control.dispatch.ended import EndedAttempt
from tallyman.control.dispatch.report import canceled, end, failed
from tallyman.domain.task.state import Outcome, TaskStatus
from tallyman.domain.task.task import CANCEL_GRACE_S, NewTask, TaskTemplate, TriggerKind, tick_key
from tallyman.errors import UsageError
from tallyman.registry.database import Database, Transaction
from tallyman.registry.task.events import Events
from tallyman.registry.task.leases import Leases
from tallyman.registry.task.schedules import DueSchedule, Schedules
from tallyman.registry.task.tasks import Tasks

log = logging.getLogger("tallyman.dispatch")

BATCH = 200
KEEP_S = 7 * 86400.0
"""How long finished tasks and their events are kept."""


def reap(database: Database, *, grace_s: float = CANCEL_GRACE_S) -> int:
    """Give up attempts whose lease or time is over, and cancel by force what did not stop; return
    their number. The lease token stays: until a newer attempt begins, a late completion counts."""
    given_up: list[EndedAttempt] = []
    with database.transaction() as tx:
        overdue = Leases(tx).overdue(grace_s, BATCH)
        for task, timed_out in overdue:
            if task.cancel_requested_at is not None:
                end(tx, task, canceled())
                given_up.append(EndedAttempt(task=task, status=TaskStatus.CANCELED))
                continue
            outcome = Outcome.TIMEOUT if timed_out else Outcome.LEASE_EXPIRED
            what = (
                f"took longer than {task.timeout_s} s"
                if timed_out
                else f"was silent for {task.lease_s} s"
            )
            message = f"attempt {task.attempt} on worker {task.worker} {what}"
            error: dict[str, object] = {"code": outcome.value, "message": message}
            ending = failed(task, outcome, error)
            end(tx, task, ending)
            lost = TaskStatus.FAILED
            given_up.append(EndedAttempt(task=task, status=lost, error=error, again=ending.again))
    for ended in given_up:
        ended.log()
    return len(overdue)


def requeue(database: Database) -> int:
    """Queue failed tasks whose pause is over; return their number."""
    with database.transaction() as tx:
        return Leases(tx).requeue(BATCH)


def tick(database: Database) -> int:
    """Make the tasks of schedules that are due; return their number. However many ticks were
    missed, the last one is caught up, once."""
    made = 0
    with database.transaction() as tx:
        for schedule in Schedules(tx).due(BATCH):
            try:
                with tx.transaction():
                    made += _tick(tx, schedule)
            except Exception:  # one bad schedule must not stop the others
                log.exception("schedule %s of %s failed", schedule.name, schedule.project)
    return made


def _tick(tx: Transaction, schedule: DueSchedule) -> int:
    cron = Cron(schedule.cron, schedule.timezone)
    latest = cron.latest(schedule.now)
    task = NewTask(
        template=schedule.template,
        trigger=TriggerKind.SCHEDULE,
        dedupe_key=tick_key(schedule.name, latest),
    )
    made = Tasks(tx).add([task])
    Schedules(tx).advance(schedule, cron.next(schedule.now), tick=latest)
    return len(made)


def put_schedule(tx: Transaction, name: str, cron: Cron, template: TaskTemplate) -> None:
    """Add or change a schedule; its first tick is the next one from now."""
    next_at = cron.next(Schedules(tx).now())
    Schedules(tx).put(name, cron.expression, cron.timezone, template, next_at)


def upkeep(database: Database, *, keep_s: float = KEEP_S) -> int:
    """Remove a batch of what finished long ago; return the number of rows."""
    if keep_s < 0:
        raise UsageError(f"the time to keep tasks is not negative, as {keep_s} is")
    with database.transaction() as tx:
        removed = Tasks(tx).remove_finished(keep_s, BATCH)
    with database.transaction() as tx:
        return removed + Events(tx).remove_old(keep_s, BATCH)
