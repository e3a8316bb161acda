"""The fence: which reports of an attempt are accepted, and why a claim is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from tallyman.domain.task.event import Event
from tallyman.domain.task.state import Outcome, TaskStatus, Transition, after
from tallyman.domain.task.task import Task
from tallyman.errors import StaleAttempt

BEING_CANCELED = "being canceled"
"""The status in the refusal of a completion after a cancel was requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The attempt that a worker says it is: all three have to be the current ones."""

    task: UUID
    attempt: int
    lease_token: UUID

    def matches(self, task: Task) -> bool:
        return (task.id, task.attempt, task.lease_token) == (
            self.task,
            self.attempt,
            self.lease_token,
        )

    def stale(self, task: Task) -> StaleAttempt:
        return StaleAttempt(str(self.task), self.attempt, task.attempt, task.status.value)


class ReportStatus(StrEnum):
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"
    WAITING = "Waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport:
    """The last word of an attempt."""

    fence: Fence
    status: ReportStatus
    events: Sequence[Event] = ()
    retryable: bool = True
    error: Mapping[str, Any] | None = None

    @property
    def outcome(self) -> Outcome:
        if self.status is ReportStatus.FAILED:
            if self.error and self.error.get("code") == Outcome.TIMEOUT:
                return Outcome.TIMEOUT  # as when the reaper notices it
            return Outcome.RETRYABLE_ERROR if self.retryable else Outcome.FATAL_ERROR
        return {
            ReportStatus.COMPLETED: Outcome.SUCCESS,
            ReportStatus.CANCELED: Outcome.CANCELED,
            ReportStatus.WAITING: Outcome.WAITING,
        }[self.status]


class ReportVerdict(StrEnum):
    APPLY = "apply"
    DUPLICATE = "duplicate"
    """It was applied before, or says nothing new: answer as the first time, change nothing."""


TRANSITION_OF: Mapping[ReportStatus, Transition] = {
    ReportStatus.COMPLETED: Transition.COMPLETE,
    ReportStatus.FAILED: Transition.FAIL,
    ReportStatus.CANCELED: Transition.CANCEL,
    ReportStatus.WAITING: Transition.WAIT,
}
ENDED = {TaskStatus.COMPLETED, TaskStatus.CANCELED}


def judge(task: Task, report: AttemptReport) -> ReportVerdict:
    """Decide about a report, or raise StaleAttempt. A completion counts as long as no newer
    attempt has begun, also after the attempt was given up; never after a cancel was requested."""
    if not report.fence.matches(task):
        raise report.fence.stale(task)
    if task.status in ENDED:
        if task.status.value == report.status.value:
            return ReportVerdict.DUPLICATE
        raise report.fence.stale(task)
    if report.status in (ReportStatus.COMPLETED, ReportStatus.WAITING):
        if task.cancel_requested_at is not None:
            raise StaleAttempt(str(task.id), report.fence.attempt, task.attempt, BEING_CANCELED)
        waits = report.status is ReportStatus.WAITING and task.status is TaskStatus.WAITING
        if waits:
            return ReportVerdict.DUPLICATE
        if after(task.status, TRANSITION_OF[report.status]) is None:
            raise report.fence.stale(task)
        return ReportVerdict.APPLY
    # The attempt was given up already: that it failed or stopped is no news.
    return ReportVerdict.APPLY if task.status is TaskStatus.RUNNING else ReportVerdict.DUPLICATE


class Refusal(StrEnum):
    """Why a task cannot be claimed."""

    ALREADY_RUNNING = "AlreadyRunning"
    COMPLETED = "Completed"
    CANCELED = "Canceled"
    FAILED = "Failed"
    WAITING = "Waiting"
    NOT_FOUND = "NotFound"
    HELD = "Held"
    PAUSED = "Paused"
    NOT_BEFORE = "NotBefore"
    CONCURRENCY_LIMIT = "ConcurrencyLimit"
    NO_SLOT = "NoSlot"
    EMPTY = "Empty"
    """No task was named, and none is there."""


REFUSED: Mapping[TaskStatus, Refusal] = {
    TaskStatus.RUNNING: Refusal.ALREADY_RUNNING,
    TaskStatus.WAITING: Refusal.WAITING,
    TaskStatus.COMPLETED: Refusal.COMPLETED,
    TaskStatus.FAILED: Refusal.FAILED,
    TaskStatus.CANCELED: Refusal.CANCELED,
}


def refusal(task: Task) -> Refusal | None:
    """Return why the task cannot be claimed, as far as the task itself says."""
    if task.status is TaskStatus.FAILED and task.next_retry_at is not None:
        return Refusal.NOT_BEFORE
    if task.status in REFUSED:
        return REFUSED[task.status]
    return Refusal.HELD if task.held_by is not None else None
