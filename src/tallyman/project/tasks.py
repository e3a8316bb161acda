"""Tasks of a project: find them, and what operators do to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tallyman.control.dispatch import operate
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.task.state import TaskStatus
from tallyman.domain.task.task import Task
from tallyman.domain.version.owner import Owner
from tallyman.errors import NotFound, TaskInState, UsageError
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.run.runs import Runs
from tallyman.registry.task.backlog import Backlog, backlog
from tallyman.registry.task.tasks import Tasks

MOST = 10_000
"""The most tasks that one call changes."""
ID = re.compile(r"[0-9a-f-]{1,36}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChoice:
    """The tasks that a command is about: those that are named, or all that fit."""

    named: Sequence[str] = ()
    everything: bool = False
    asset: str | None = None
    run: str | None = None

    def __post_init__(self) -> None:
        if bool(self.named) == self.everything:
            raise UsageError("name tasks, or give --all, with --asset or --run for some of all")
        if self.named and (self.asset or self.run):
            raise UsageError("--asset and --run are for --all; name tasks without them")


@dataclass(frozen=True, slots=True)
class ProjectTasks:
    """Answers questions about tasks, and carries out what operators decide."""

    workspace: Workspace

    def __call__(
        self,
        *,
        status: TaskStatus | None = None,
        asset: str | None = None,
        run: str | None = None,
        limit: int = 50,
    ) -> list[Task]:
        """List tasks, newest first."""

        def work(tx: Transaction) -> list[Task]:
            made_by = self._run(tx, run)
            return Tasks(tx).list(self._owner, status=status, asset=asset, run=made_by, limit=limit)

        return self.workspace.database.durably(work)

    def find(self, task: str) -> Task:
        """Find a task by its id or the beginning of it."""
        return self.workspace.database.durably(
            lambda tx: Tasks(tx).get(self._id(tx, task), self._owner)
        )

    def attempts(self, task: UUID) -> Sequence[dict[str, Any]]:
        return self.workspace.database.durably(lambda tx: Tasks(tx).attempts(task))

    def backlog(self, asset: str | None = None) -> Backlog:
        """Count the tasks, or those of one asset, that have not ended or have failed."""
        return self.workspace.database.durably(lambda tx: backlog(tx, self._owner, asset))

    def retry(self, choice: TaskChoice) -> list[Task]:
        """Start tasks again that failed for good or were canceled; of all, those that failed."""

        def change(tx: Transaction, task: Task) -> Task:
            return operate.retry(tx, self._owner, task.id)

        def fits(task: Task) -> bool:
            return task.status is TaskStatus.FAILED and task.finished_at is not None

        return self._changed("retried", choice, fits, change)

    def cancel(self, choice: TaskChoice) -> list[Task]:
        """Cancel tasks that have not ended; a running one is asked to stop."""

        def change(tx: Transaction, task: Task) -> Task:
            return operate.cancel(tx, self._owner, task.id)

        return self._changed("canceled", choice, lambda task: task.finished_at is None, change)

    def hold(self, choice: TaskChoice) -> list[Task]:
        """Keep workers from beginning tasks, until they are released."""

        def change(tx: Transaction, task: Task) -> Task:
            if not operate.hold(tx, self._owner, [task.id], self.workspace.actor):
                state = f"held by {task.held_by}" if task.held_by else task.status.value
                raise TaskInState(str(task.id), state, "holding it")
            return Tasks(tx).get(task.id, self._owner)

        def fits(task: Task) -> bool:
            begun = task.status in (TaskStatus.RUNNING, TaskStatus.WAITING)
            return task.finished_at is None and task.held_by is None and not begun

        return self._changed("held", choice, fits, change)

    def release(self, choice: TaskChoice) -> list[Task]:
        """Let workers begin tasks that are held, whoever holds them."""

        def change(tx: Transaction, task: Task) -> Task:
            held_by = task.held_by
            if held_by is None or not operate.release(tx, self._owner, held_by, [task.id]):
                raise TaskInState(str(task.id), f"{task.status.value}, not held", "releasing it")
            return Tasks(tx).get(task.id, self._owner)

        return self._changed("released", choice, lambda task: task.held_by is not None, change)

    def _changed(
        self,
        action: str,
        choice: TaskChoice,
        fits: Callable[[Task], bool],
        change: Callable[[Transaction, Task], Task],
    ) -> list[Task]:
        """Change all chosen tasks or none, with an entry in the audit log for each."""
        owner, actor = self._owner, self.workspace.actor
        # Not repeated when the connection is lost: after a commit, a second try would be refused.
        with self.workspace.database.transaction() as tx:
            if choice.everything:
                run = self._run(tx, choice.run)
                found = Tasks(tx).list(owner, asset=choice.asset, run=run, limit=MOST)
                chosen = [task for task in found if fits(task)]
            else:
                chosen = [Tasks(tx).get(self._id(tx, name), owner) for name in choice.named]
            done = [change(tx, task) for task in chosen]
            for task in done:
                details = {"task": str(task.id)}
                name, run = f"task.{action}", task.run_id
                Audit(tx, owner).add(name, actor, task.asset, run=run, details=details)
            return done

    @property
    def _owner(self) -> Owner:
        return self.workspace.owner

    def _run(self, tx: Transaction, run: str | None) -> UUID | None:
        return Runs(tx).get(run, self._owner).id if run else None

    def _id(self, tx: Transaction, name: str) -> UUID:
        found = Tasks(tx).starting(name, self._owner) if ID.fullmatch(name) else []
        if not found:
            raise NotFound("task", name)
        if len(found) > 1:
            raise UsageError(f"several tasks begin with {name!r}; write more of the id")
        return found[0]
