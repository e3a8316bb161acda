"""Ended: what an attempt came to, as a line for the log of a server."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tallyman.domain.pipeline.partition import decode
from tallyman.domain.pipeline.target import Target
from tallyman.domain.task.event import Scope
from tallyman.domain.task.state import TaskStatus
from tallyman.domain.task.task import Task
from tallyman.errors import UsageError

log = logging.getLogger("tallyman.dispatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    """An attempt that ended, with the task as it was before."""

    task: Task
    status: TaskStatus
    error: Mapping[str, Any] | None = None
    again: bool = False
    """True if another attempt follows."""
    rows: int | None = None

    def log(self) -> None:
        """Write one line, once what it says is committed."""
        level = logging.WARNING if self.status is TaskStatus.FAILED else logging.INFO
        log.log(level, "%s", self, extra={"facts": self.facts()})

    def facts(self) -> dict[str, Any]:
        return {
            "task_id": str(self.task.id),
            "target": target_text(self.task),
            "status": self.status.value,
            "attempt": self.task.attempt,
            "worker": self.task.worker,
            "seconds": round(self.seconds, 3),
            "again": self.again,
            "rows": self.rows,
            "error": dict(self.error) if self.error else None,
        }

    @property
    def seconds(self) -> float:
        if self.task.deadline_at is None:
            return 0.0
        begun = self.task.deadline_at - timedelta(seconds=self.task.timeout_s)
        return max(0.0, (datetime.now(UTC) - begun).total_seconds())

    def __str__(self) -> str:
        parts = [target_text(self.task), self.status.value.lower()]
        if self.rows is not None:
            parts.append(f"{self.rows:,} row{'' if self.rows == 1 else 's'}")
        parts.append(f"{self.seconds:.1f} s")
        if self.task.attempt > 1 or self.status is TaskStatus.FAILED:
            follows = ", another follows" if self.again else ""
            parts.append(f"attempt {self.task.attempt}{follows}")
        text = "   ".join(parts)
        if self.error:
            text += f"   {_first_line(self.error)}"
        return text


def _first_line(error: Mapping[str, Any]) -> str:
    """Return the first line of the message; of an error without one, its code."""
    lines = str(error.get("message") or "").splitlines()
    return (lines[0] if lines else str(error.get("code", "")))[:200]


def target_text(task: Task) -> str:
    """Write what a task works on: `orders`, `orders[2026-01-31]`, `orders[7..9]`."""
    return str(Target(task.asset, scope_text(task.scope)))


def scope_text(scope: Scope) -> str | None:
    """Write a scope as people write it; None for all of a dataset."""
    if scope.start is not None:
        return f"{scope.start}..{scope.end}"
    if scope.partition_key is None:
        return scope.cursor
    try:
        return str(decode(scope.partition_key))
    except UsageError:
        return scope.partition_key
