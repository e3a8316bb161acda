"""The state machine of a task: every status, every transition, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class TaskStatus(StrEnum):
    QUEUED = "Queued"
    RUNNING = "Running"
    WAITING = "Waiting"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"


class Outcome(StrEnum):
    """How an attempt ended."""

    SUCCESS = "success"
    RETRYABLE_ERROR = "retryable_error"
    FATAL_ERROR = "fatal_error"
    TIMEOUT = "timeout"
    LEASE_EXPIRED = "lease_expired"
    CANCELED = "canceled"
    WAITING = "waiting"


class Transition(StrEnum):
    CLAIM = "claim"
    """A worker takes the task: the attempt rises, a new lease begins."""
    COMPLETE = "complete"
    """The current attempt succeeded, possibly after it was given up (late)."""
    FAIL = "fail"
    """The current attempt failed, or was given up."""
    REQUEUE = "requeue"
    """The delay of a retry is over."""
    WAIT = "wait"
    """A person has to decide; no worker and no slot is held."""
    APPROVE = "approve"
    REJECT = "reject"
    CANCEL = "cancel"
    RETRY = "retry"
    """An operator starts a task again that has ended without success."""


TRANSITIONS: Mapping[tuple[TaskStatus, Transition], TaskStatus] = {
    (TaskStatus.QUEUED, Transition.CLAIM): TaskStatus.RUNNING,
    (TaskStatus.QUEUED, Transition.COMPLETE): TaskStatus.COMPLETED,
    (TaskStatus.QUEUED, Transition.CANCEL): TaskStatus.CANCELED,
    (TaskStatus.RUNNING, Transition.COMPLETE): TaskStatus.COMPLETED,
    (TaskStatus.RUNNING, Transition.FAIL): TaskStatus.FAILED,
    (TaskStatus.RUNNING, Transition.WAIT): TaskStatus.WAITING,
    (TaskStatus.RUNNING, Transition.CANCEL): TaskStatus.CANCELED,
    (TaskStatus.WAITING, Transition.APPROVE): TaskStatus.QUEUED,
    (TaskStatus.WAITING, Transition.REJECT): TaskStatus.FAILED,
    (TaskStatus.WAITING, Transition.CANCEL): TaskStatus.CANCELED,
    (TaskStatus.FAILED, Transition.COMPLETE): TaskStatus.COMPLETED,
    (TaskStatus.FAILED, Transition.REQUEUE): TaskStatus.QUEUED,
    (TaskStatus.FAILED, Transition.RETRY): TaskStatus.QUEUED,
    (TaskStatus.FAILED, Transition.CANCEL): TaskStatus.CANCELED,
    (TaskStatus.CANCELED, Transition.RETRY): TaskStatus.QUEUED,
}
"""A pair that is missing is refused."""


def after(status: TaskStatus, transition: Transition) -> TaskStatus | None:
    """Return the status after a transition; None if the transition is not allowed."""
    return TRANSITIONS.get((status, transition))


def sources(transition: Transition) -> list[str]:
    """List the statuses that allow a transition, for the WHERE of the statement that makes it."""
    return sorted(status.value for status, made in TRANSITIONS if made is transition)
