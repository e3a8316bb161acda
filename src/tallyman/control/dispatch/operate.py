"""Operate: what people and deployments do to tasks."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tallyman.domain.task.state import TaskStatus
from tallyman.domain.task.task import NewTask, Task
from tallyman.domain.version.owner import Owner
from tallyman.errors import TaskInState
from tallyman.registry.database import Transaction
from tallyman.registry.task.operations import Operations
from tallyman.registry.task.tasks import Tasks


def create(tx: Transaction, tasks: Sequence[NewTask]) -> list[UUID]:
    """Add the tasks that are not there yet; return the ids of those."""
    return Tasks(tx).add(tasks)


def cancel(tx: Transaction, owner: Owner, task: UUID) -> Task:
    """Cancel a task. A running one is asked to stop, and canceled by force if it does not; from
    now on it cannot complete. May be repeated."""
    found = Tasks(tx).lock(task, owner)
    if found.status is not TaskStatus.CANCELED and not Operations(tx).cancel(task):
        raise TaskInState(str(task), found.status.value, "canceling it")
    return Tasks(tx).get(task, owner)


def hold(tx: Transaction, owner: Owner, tasks: Sequence[UUID], by: str) -> int:
    """Keep queued tasks from being claimed until `by` releases them; return their number."""
    return Operations(tx).hold(owner, list(tasks), by)


def release(tx: Transaction, owner: Owner, by: str, tasks: Sequence[UUID] | None = None) -> int:
    """Let go of what `by` holds, all or those given; return the number of tasks."""
    return len(Operations(tx).release(owner, by, None if tasks is None else list(tasks)))


def retry(tx: Transaction, owner: Owner, task: UUID) -> Task:
    """Start a task again that failed or was canceled, with all of its attempts."""
    found = Tasks(tx).lock(task, owner)
    if not Operations(tx).retry(task):
        raise TaskInState(str(task), found.status.value, "starting it again")
    return Tasks(tx).get(task, owner)


def decide(tx: Transaction, owner: Owner, task: UUID, *, approved: bool, reason: str) -> Task:
    """Let a task that waits for a person go on, or fail it."""
    found = Tasks(tx).lock(task, owner)
    if not Operations(tx).decide(task, approved=approved, reason=reason):
        raise TaskInState(str(task), found.status.value, "deciding about it")
    return Tasks(tx).get(task, owner)
