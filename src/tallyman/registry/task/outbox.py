"""The outbox: wake-ups that were committed with their reason and wait to be sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tallyman.domain.task.queue import Wake
from tallyman.domain.task.task import Task, queue_name
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

MOST_FAILURES = 20
"""After so many failures a wake-up is given up until an operator resets it."""

WAKE = """
    INSERT INTO outbox (task_id, attempt)
    SELECT id, attempt FROM tasks
    WHERE id = ANY(%(tasks)s) AND status = 'Queued' AND held_by IS NULL
    ON CONFLICT (task_id, attempt, kind) DO UPDATE SET status = 'Pending', done_at = NULL
"""
# Without SKIP LOCKED two tasks that end at once would both wake the same one.
WAKE_NEXT = """
    WITH next AS (
        SELECT id, attempt FROM tasks
        WHERE org = %(org)s AND project = %(project)s AND pool = %(pool)s
          AND (%(asset)s::text IS NULL OR (kind = %(kind)s AND asset = %(asset)s))
          AND status = 'Queued' AND held_by IS NULL
        ORDER BY priority DESC, created_at LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    INSERT INTO outbox (task_id, attempt) SELECT id, attempt FROM next
    ON CONFLICT (task_id, attempt, kind) DO UPDATE SET status = 'Pending', done_at = NULL
"""
PENDING = """
    SELECT o.task_id, o.attempt, t.org, t.project, t.pool, t.priority
    FROM outbox o JOIN tasks t ON t.id = o.task_id
    WHERE o.status = 'Pending'
    ORDER BY o.created_at LIMIT %(limit)s FOR UPDATE OF o SKIP LOCKED
"""
DONE = """
    UPDATE outbox o SET status = 'Done', done_at = clock_timestamp(), last_error = NULL
    FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS s (task_id, attempt)
    WHERE o.task_id = s.task_id AND o.attempt = s.attempt
"""
NOT_SENT = """
    UPDATE outbox o
    SET failures = failures + 1, last_error = %(reason)s,
        status = CASE WHEN failures + 1 >= %(most)s THEN 'Failed' ELSE 'Pending' END
    FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS s (task_id, attempt)
    WHERE o.task_id = s.task_id AND o.attempt = s.attempt
"""
# A pool with slots gets as many wake-ups as it has free slots, those first that waited longest.
SWEEP = """
    WITH room AS (
        SELECT p.org, p.project, p.name, p.unlimited, CASE WHEN p.unlimited THEN %(limit)s
            ELSE (SELECT count(*) FROM slots s WHERE s.org = p.org AND s.project = p.project
                  AND s.pool = p.name AND s.task_id IS NULL) END AS n
        FROM pools p
    ), asleep AS (
        SELECT t.id, t.attempt FROM room r CROSS JOIN LATERAL (
            SELECT t.id, t.attempt FROM tasks t
            LEFT JOIN outbox o ON o.task_id = t.id AND o.attempt = t.attempt
            WHERE t.org = r.org AND t.project = r.project AND t.pool = r.name
              AND t.status = 'Queued' AND t.held_by IS NULL
              AND (o.status IS NULL OR (o.status = 'Done' AND o.done_at < clock_timestamp()
                   - make_interval(secs => CASE WHEN r.unlimited THEN %(lost)s ELSE %(slot)s END)))
            ORDER BY o.done_at NULLS FIRST, t.created_at LIMIT r.n
        ) t
    )
    INSERT INTO outbox (task_id, attempt) SELECT id, attempt FROM asleep
    ON CONFLICT (task_id, attempt, kind) DO UPDATE SET status = 'Pending', done_at = NULL
    WHERE outbox.status = 'Done'
"""
REMOVE_DONE = """
    DELETE FROM outbox WHERE (task_id, attempt, kind) IN (
        SELECT task_id, attempt, kind FROM outbox
        WHERE status = 'Done' AND done_at < clock_timestamp() - make_interval(secs => %(older)s)
        ORDER BY done_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    )
"""
COUNTS = """
    SELECT count(*) FILTER (WHERE status = 'Pending') AS pending,
           count(*) FILTER (WHERE status = 'Failed') AS failed FROM outbox
    WHERE status <> 'Done'
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A wake-up in the outbox, locked by this transaction."""

    task: UUID
    attempt: int
    wake: Wake


class TaskOutbox:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def wake(self, tasks: Sequence[UUID]) -> None:
        """Wake a worker for each of the tasks that is queued and not held."""
        self.tx.execute(WAKE, {"tasks": list(tasks)})

    def wake_next(self, ended: Task, *, same_asset: bool) -> None:
        """Wake a worker for the next queued task of the pool, or of the asset of the task that
        ended."""
        given: dict[str, Any] = {"org": ended.org, "project": ended.project, "pool": ended.pool}
        given |= {"kind": ended.kind, "asset": ended.asset if same_asset else None}
        self.tx.execute(WAKE_NEXT, given)

    def pending(self, limit: int) -> list[Waiting]:
        """Lock a batch of wake-ups, oldest first; those that another process has are skipped."""
        rows = self.tx.execute(PENDING, {"limit": limit}).fetchall()
        return [
            Waiting(
                row["task_id"],
                row["attempt"],
                Wake(
                    queue_name(Owner(row["org"], row["project"]), row["pool"]),
                    row["task_id"],
                    row["priority"],
                ),
            )
            for row in rows
        ]

    def sent(self, waiting: Sequence[Waiting]) -> None:
        self.tx.execute(DONE, _keys(waiting))

    def not_sent(self, waiting: Sequence[Waiting], reason: str) -> None:
        given = {**_keys(waiting), "reason": reason[:1000], "most": MOST_FAILURES}
        self.tx.execute(NOT_SENT, given)

    def sweep(self, *, lost_s: float, slot_s: float, limit: int) -> int:
        """Wake workers again for tasks whose message got lost, or that found no free slot."""
        given = {"lost": lost_s, "slot": slot_s, "limit": limit}
        return self.tx.execute(SWEEP, given).rowcount

    def remove_done(self, older_than_s: float, limit: int) -> int:
        return self.tx.execute(REMOVE_DONE, {"older": older_than_s, "limit": limit}).rowcount

    def counts(self) -> dict[str, int]:
        return self.tx.execute(COUNTS).fetchone() or {}


def _keys(waiting: Sequence[Waiting]) -> dict[str, Any]:
    return {"tasks": [w.task for w in waiting], "attempts": [w.attempt for w in waiting]}
