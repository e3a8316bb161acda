"""Leases: the statements that move a task, each locked and fenced by attempt and lease token.

Whoever may make a transition, and from which status, is decided in `domain/task`; the status is
compared here again, in the statement that has the effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.task.fence import Fence
from tallyman.domain.task.state import Outcome, Transition, sources
from tallyman.domain.task.task import Task
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction
from tallyman.registry.task.tasks import COLUMNS, task_of
from tallyman.registry.task.wakeups import notify

CLAIM = f"""
    WITH claimed AS (
        UPDATE tasks
        SET status = 'Running', attempt = attempt + 1, lease_token = gen_random_uuid(),
            lease_until = clock_timestamp() + make_interval(secs => lease_s),
            deadline_at = clock_timestamp() + make_interval(secs => timeout_s),
            worker = %(worker)s, next_retry_at = NULL, finished_at = NULL
        WHERE id = %(id)s AND status = ANY(%(sources)s) AND held_by IS NULL
        RETURNING {COLUMNS}
    ), begun AS (
        INSERT INTO attempts (task_id, attempt, lease_token, worker, slot)
        SELECT id, attempt, lease_token, worker, %(slot)s FROM claimed
    )
    SELECT * FROM claimed
"""
HELD = f"""
    SELECT {COLUMNS} FROM tasks
    WHERE org = %(org)s AND project = %(project)s AND worker = %(worker)s AND status = 'Running'
      AND lease_until >= clock_timestamp() AND cancel_requested_at IS NULL
    ORDER BY id LIMIT 1
"""
BEAT = """
    UPDATE tasks SET lease_until = clock_timestamp() + make_interval(secs => lease_s)
    WHERE id = %(id)s AND attempt = %(attempt)s AND lease_token = %(token)s
      AND org = %(org)s AND project = %(project)s
      AND status = 'Running' AND lease_until >= clock_timestamp()   -- not after it was over
    RETURNING cancel_requested_at IS NOT NULL AS cancel, lease_until, deadline_at
"""
# A task whose attempt ends frees its slot in the same statement.
END = """
    WITH ended AS (
        UPDATE tasks
        SET status = %(status)s, error = %(error)s::jsonb,
            failures = failures + %(failed)s::integer,
            next_retry_at = CASE WHEN %(again)s THEN clock_timestamp() + make_interval(
                secs => CASE WHEN %(pause)s THEN retry_delays_s[failures + 1] ELSE 0 END) END,
            finished_at = CASE WHEN %(finished)s THEN clock_timestamp() END
        WHERE id = %(id)s AND attempt = %(attempt)s AND lease_token = %(token)s
          AND status = ANY(%(sources)s)   -- no row: another transaction was first
        RETURNING id, attempt
    ), closed AS (
        UPDATE attempts a
        SET outcome = %(outcome)s, ended_at = clock_timestamp(), error = %(error)s::jsonb
        FROM ended WHERE a.task_id = ended.id AND a.attempt = ended.attempt
    ), freed AS (
        UPDATE slots s SET task_id = NULL FROM ended WHERE s.task_id = ended.id
    )
    SELECT id FROM ended
"""
OVERDUE = f"""
    SELECT {COLUMNS}, deadline_at < clock_timestamp() AS timed_out FROM tasks
    WHERE status = 'Running'
      AND (lease_until < clock_timestamp() OR deadline_at < clock_timestamp()
           OR cancel_requested_at < clock_timestamp() - make_interval(secs => %(grace)s))
    ORDER BY lease_until LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED   -- another reaper has it, or its worker is just reporting
"""
REQUEUE = """
    WITH due AS (
        SELECT id FROM tasks
        WHERE status = 'Failed' AND next_retry_at <= clock_timestamp()
        ORDER BY next_retry_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    )
    UPDATE tasks t SET status = 'Queued', next_retry_at = NULL FROM due WHERE t.id = due.id
    RETURNING t.id
"""


@dataclass(frozen=True, slots=True)
class Beat:
    cancel: bool
    lease_until: datetime
    deadline_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an attempt ends: what the task becomes, and whether there will be another attempt."""

    transition: Transition
    status: str
    outcome: Outcome
    failed: bool = False
    again: bool = False
    pause: bool = True
    """False if the next attempt may begin at once."""
    error: Mapping[str, Any] | None = None

    @property
    def finished(self) -> bool:
        return self.status in ("Completed", "Canceled") or (
            self.status == "Failed" and not self.again
        )


class Leases:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def claim(self, task: UUID, worker: str, slot: int | None) -> Task | None:
        """Begin the next attempt; None if the task is no longer queued or is held."""
        given = {"id": task, "worker": worker[:255], "slot": slot}
        given |= {"sources": sources(Transition.CLAIM)}
        row = self.tx.execute(CLAIM.encode(), given).fetchone()
        return None if row is None else task_of(row)

    def held(self, owner: Owner, worker: str) -> Task | None:
        """Return a task that the worker runs, as far as the database knows."""
        given = owner.key | {"worker": worker[:255]}
        row = self.tx.execute(HELD.encode(), given).fetchone()
        return None if row is None else task_of(row)

    def beat(self, fence: Fence, owner: Owner) -> Beat | None:
        """Renew the lease; None if the attempt no longer counts or its lease is over."""
        given = _fenced(fence) | owner.key
        row = self.tx.execute(BEAT, given).fetchone()
        return None if row is None else Beat(row["cancel"], row["lease_until"], row["deadline_at"])

    def end(self, fence: Fence, ending: Ending) -> bool:
        """End the attempt and free its slot; False if the attempt no longer counts."""
        given = _fenced(fence) | {
            "status": ending.status,
            "outcome": ending.outcome.value,
            "failed": ending.failed,
            "again": ending.again,
            "pause": ending.pause,
            "finished": ending.finished,
            "error": Jsonb(dict(ending.error)) if ending.error else None,
            "sources": sources(ending.transition),
        }
        return self.tx.execute(END, given).fetchone() is not None

    def overdue(self, grace_s: float, limit: int) -> list[tuple[Task, bool]]:
        """Lock a batch of tasks whose lease, time or grace after a cancel is over; with each, true
        if its time is over."""
        rows = self.tx.execute(OVERDUE.encode(), {"grace": grace_s, "limit": limit}).fetchall()
        over = [bool(row.pop("timed_out")) for row in rows]
        return [(task_of(row), timed_out) for row, timed_out in zip(rows, over, strict=True)]

    def requeue(self, limit: int) -> int:
        """Queue a batch of failed tasks whose pause is over."""
        queued = [row["id"] for row in self.tx.execute(REQUEUE, {"limit": limit}).fetchall()]
        notify(self.tx, queued)
        return len(queued)


def _fenced(fence: Fence) -> dict[str, Any]:
    return {"id": fence.task, "attempt": fence.attempt, "token": fence.lease_token}
