"""AttemptReport: an attempt says that it lives, or how it ended.

The caller owns the transaction: what an attempt publishes belongs into the one that completes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallyman.control.dispatch import emit
from tallyman.domain.task.fence import AttemptReport, Fence, ReportStatus, ReportVerdict, judge
from tallyman.domain.task.state import Outcome, TaskStatus, Transition
from tallyman.domain.task.task import Task
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction
from tallyman.registry.task.leases import Beat, Ending, Leases
from tallyman.registry.task.tasks import Tasks
from tallyman.registry.task.wakeups import notify_next


@dataclass(frozen=True, slots=True)
class Reported:
    task: Task
    """The task as it was before."""
    status: TaskStatus
    duplicate: bool = False
    again: bool = False
    """True if another attempt follows."""
    emitted: emit.Emitted = emit.NOTHING


def heartbeat(tx: Transaction, owner: Owner, fence: Fence) -> Beat:
    """Renew the lease of a running attempt, or raise StaleAttempt."""
    beat = Leases(tx).beat(fence, owner)
    if beat is None:
        raise fence.stale(Tasks(tx).get(fence.task, owner))
    return beat


def complete(tx: Transaction, owner: Owner, report: AttemptReport) -> Reported:
    """End an attempt: its last events, the tasks they make and the end itself, or StaleAttempt and
    nothing. May be repeated."""
    task = Tasks(tx).lock(report.fence.task, owner)
    if judge(task, report) is ReportVerdict.DUPLICATE:
        return Reported(task, task.status, duplicate=True)
    emitted = emit.NOTHING
    if report.status is ReportStatus.COMPLETED:
        emitted = emit.record(tx, task.producer, report.events)
    ending = ending_of(task, report)
    end(tx, task, ending)
    return Reported(task, TaskStatus(ending.status), again=ending.again, emitted=emitted)


def end(tx: Transaction, task: Task, ending: Ending) -> None:
    """End the current attempt of a task that the caller has locked, and let the next task that
    waited for its place go on."""
    assert task.lease_token is not None
    fence = Fence(task=task.id, attempt=task.attempt, lease_token=task.lease_token)
    if not Leases(tx).end(fence, ending):
        raise fence.stale(task)
    notify_next(tx, task)


def ending_of(task: Task, report: AttemptReport) -> Ending:
    """Decide what a task becomes after a report that counts."""
    if report.status is ReportStatus.COMPLETED:
        return Ending(transition=Transition.COMPLETE, status="Completed", outcome=Outcome.SUCCESS)
    if report.status is ReportStatus.WAITING:
        return Ending(transition=Transition.WAIT, status="Waiting", outcome=Outcome.WAITING)
    if report.status is ReportStatus.CANCELED or task.cancel_requested_at is not None:
        return canceled(report.error)
    error = dict(report.error or {"code": "error", "message": "no reason given"})
    return failed(task, report.outcome, error)


def canceled(error: Mapping[str, Any] | None = None) -> Ending:
    return Ending(
        transition=Transition.CANCEL, status="Canceled", outcome=Outcome.CANCELED, error=error
    )


def failed(task: Task, outcome: Outcome, error: dict[str, object]) -> Ending:
    """End an attempt without success; another one follows while the policy allows it."""
    again = outcome is not Outcome.FATAL_ERROR and task.failures + 1 < task.max_attempts
    return Ending(
        transition=Transition.FAIL,
        status="Failed",
        outcome=outcome,
        failed=True,
        again=again,
        # A worker that fell silent says nothing about the task: the next one may begin at once.
        pause=outcome is not Outcome.LEASE_EXPIRED,
        error=error,
    )
