"""The tasks of runs: which target each makes, and whether it is still open."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tallyman.domain.task.state import TaskStatus
from tallyman.registry.database import Transaction

OF_RUN = """
    SELECT id, asset, scope ->> 'partition_key' AS partition, status, error,
           finished_at IS NULL AS open, coalesce((config ->> 'round')::integer, 0) AS round
    FROM tasks WHERE run_id = %(run)s AND kind = %(kind)s
    ORDER BY id
"""
BIND = """
    UPDATE tasks SET run_id = %(run)s, pipeline_version = %(version)s
    WHERE id = %(id)s AND (run_id IS NULL OR run_id = %(run)s)
"""
# Runs that tasks execute, and that no task can move any more: a server has to look at them.
STUCK = """
    SELECT r.id FROM runs r
    WHERE r.status = 'running' AND r.executor = r.id
      AND NOT EXISTS (SELECT FROM tasks t WHERE t.run_id = r.id AND t.finished_at IS NULL)
      AND r.id <> ALL(%(without)s)
    ORDER BY r.started_at LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    id: UUID
    asset: str
    partition: str | None
    status: TaskStatus
    open: bool
    """True until it has ended for good."""
    round: int
    """How often the run was resumed before."""
    error: Mapping[str, Any] | None


class RunTasks:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def of_run(self, run: UUID, kind: str) -> list[RunTask]:
        rows = self.tx.execute(OF_RUN, {"run": run, "kind": kind}).fetchall()
        return [RunTask(status=TaskStatus(row.pop("status")), **row) for row in rows]

    def bind(self, task: UUID, run: UUID, version: str | None) -> None:
        """Let the task belong to a run and its pipeline version, if it belongs to no other."""
        self.tx.execute(BIND, {"id": task, "run": run, "version": version})

    def stuck(self, limit: int, without: Collection[UUID] = ()) -> list[UUID]:
        """List runs of tasks that have no open task, except those left out."""
        given = {"limit": limit, "without": list(without)}
        return [row["id"] for row in self.tx.execute(STUCK, given).fetchall()]
