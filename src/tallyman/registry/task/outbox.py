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
"""After so many failures a wake-up is shown as Failed; it is tried again all the same, rarely."""
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 60.0
FAILED_PAUSE_S = 300.0

# Whoever wakes a task gives its wake-up a new beginning.
AGAIN = """
    ON CONFLICT (task_id, attempt, kind) DO UPDATE
    SET status = 'Pending', done_at = NULL, failures = 0, next_try_at = clock_timestamp()
"""
WAKE = f"""
    INSERT INTO outbox (task_id, attempt)
    SELECT id, attempt FROM tasks
    WHERE id = ANY(%(tasks)s) AND status = 'Queued' AND held_by IS NULL
    {AGAIN}
"""
# Without SKIP LOCKED two tasks that end at once would both wake the same one; without a look at
# those awake, two that end before the next claim. Of an asset, as many as it may run are looked at:
# if those are awake, no place stays empty.
WAKE_NEXT = f"""
    WITH next AS (
        SELECT t.id, t.attempt FROM tasks t
        WHERE t.id = ANY (ARRAY(
              SELECT f.id FROM tasks f
              WHERE f.org = %(org)s AND f.project = %(project)s AND f.kind = %(kind)s
                AND f.asset = %(asset)s AND f.max_concurrency IS NOT NULL
                AND f.status = 'Queued' AND f.held_by IS NULL
              ORDER BY f.priority DESC, f.created_at LIMIT %(most)s))
          AND t.status = 'Queued' AND t.held_by IS NULL
          AND NOT EXISTS (SELECT FROM outbox o WHERE o.task_id = t.id AND o.attempt = t.attempt
                          AND o.status <> 'Done')
          AND NOT EXISTS (SELECT FROM queue_messages m
                          WHERE m.payload ->> 'task_id' = t.id::text)
        ORDER BY t.priority DESC, t.created_at LIMIT 1 FOR UPDATE OF t SKIP LOCKED
    )
    INSERT INTO outbox (task_id, attempt) SELECT id, attempt FROM next
    {AGAIN}
"""
# Messages of a pool with slots stay until there is one; sending one again wakes those who wait.
WAKE_POOL = f"""
    WITH next AS (
        SELECT t.id, t.attempt FROM tasks t
        WHERE t.org = %(org)s AND t.project = %(project)s AND t.pool = %(pool)s
          AND t.status = 'Queued' AND t.held_by IS NULL
          AND NOT EXISTS (SELECT FROM outbox o WHERE o.task_id = t.id AND o.attempt = t.attempt
                          AND o.status <> 'Done')
        ORDER BY t.priority DESC, t.created_at LIMIT 1 FOR UPDATE OF t SKIP LOCKED
    )
    INSERT INTO outbox (task_id, attempt) SELECT id, attempt FROM next
    {AGAIN}
"""
# Failed ones too, when their pause is over: nothing else would wake their tasks.
PENDING = """
    SELECT o.task_id, o.attempt, t.org, t.project, t.pool, t.priority
    FROM outbox o JOIN tasks t ON t.id = o.task_id
    WHERE o.status <> 'Done' AND o.next_try_at <= clock_timestamp()
    ORDER BY o.created_at LIMIT %(limit)s FOR UPDATE OF o SKIP LOCKED
"""
DONE = """
    UPDATE outbox o
    SET status = 'Done', done_at = clock_timestamp(), failures = 0, last_error = NULL
    FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS s (task_id, attempt)
    WHERE o.task_id = s.task_id AND o.attempt = s.attempt
"""
NOT_SENT = """
    UPDATE outbox o
    SET failures = failures + 1, last_error = %(reason)s,
        status = CASE WHEN failures + 1 >= %(most)s THEN 'Failed' ELSE 'Pending' END,
        next_try_at = clock_timestamp() + make_interval(secs => CASE
            WHEN failures + 1 >= %(most)s THEN %(failed)s
            ELSE least(%(first)s * 2 ^ failures, %(longest)s) END)
    FROM unnest(%(tasks)s::uuid[], %(attempts)s::integer[]) AS s (task_id, attempt)
    WHERE o.task_id = s.task_id AND o.attempt = s.attempt
"""
# A task sleeps if nothing is to be sent for it, and no message is there. An asset gets as many
# wake-ups as it may run more, a pool as many as it has free slots, those first that waited longest:
# another one would find no place.
SWEEP = f"""
    WITH room AS MATERIALIZED (
        SELECT p.org, p.project, p.name, p.unlimited, CASE WHEN p.unlimited THEN %(limit)s
            ELSE (SELECT count(*) FROM slots s WHERE s.org = p.org AND s.project = p.project
                  AND s.pool = p.name AND s.task_id IS NULL) END AS n
        FROM pools p
    ), running AS (
        SELECT org, project, kind, asset, count(*) AS n FROM tasks WHERE status = 'Running'
        GROUP BY org, project, kind, asset
    ), asleep AS (
        SELECT t.id, t.attempt, t.org, t.project, t.pool, t.created_at, o.done_at, r.n,
               t.max_concurrency - coalesce(g.n, 0) AS places,
               row_number() OVER (PARTITION BY t.org, t.project, t.kind, t.asset
                                  ORDER BY t.priority DESC, t.created_at) AS place
        FROM tasks t
        JOIN room r ON r.org = t.org AND r.project = t.project AND r.name = t.pool
        LEFT JOIN running g ON g.org = t.org AND g.project = t.project AND g.kind = t.kind
                           AND g.asset = t.asset
        LEFT JOIN outbox o ON o.task_id = t.id AND o.attempt = t.attempt
        WHERE t.status = 'Queued' AND t.held_by IS NULL AND r.n > 0
          AND (t.max_concurrency IS NULL OR coalesce(g.n, 0) < t.max_concurrency)
          AND (o.status IS NULL OR (o.status = 'Done' AND o.done_at < clock_timestamp()
               - make_interval(secs => CASE WHEN r.unlimited AND t.max_concurrency IS NULL
                                       THEN %(lost)s ELSE %(slot)s END)))
          AND NOT EXISTS (SELECT FROM queue_messages m WHERE m.payload ->> 'task_id' = t.id::text)
    ), fitting AS (
        SELECT id, attempt, n, row_number() OVER (PARTITION BY org, project, pool
                                                  ORDER BY done_at NULLS FIRST, created_at) AS place
        FROM asleep WHERE places IS NULL OR place <= places
    )
    INSERT INTO outbox (task_id, attempt) SELECT id, attempt FROM fitting WHERE place <= n
    {AGAIN} WHERE outbox.status = 'Done'
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
        self.tx.execute(WAKE.encode(), {"tasks": list(tasks)})

    def wake_next(self, ended: Task) -> None:
        """Wake a worker for each place that the end of a task made free: in its pool, and among
        the tasks of its asset."""
        given: dict[str, Any] = {"org": ended.org, "project": ended.project, "pool": ended.pool}
        if ended.limited:
            self.tx.execute(WAKE_POOL.encode(), given)
        if ended.max_concurrency is not None:
            given |= {"kind": ended.kind, "asset": ended.asset, "most": ended.max_concurrency}
            self.tx.execute(WAKE_NEXT.encode(), given)

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
        given |= {"first": FIRST_PAUSE_S, "longest": LONGEST_PAUSE_S, "failed": FAILED_PAUSE_S}
        self.tx.execute(NOT_SENT, given)

    def sweep(self, *, lost_s: float, slot_s: float, limit: int) -> int:
        """Wake workers again for tasks whose message got lost, or that found no free slot."""
        given = {"lost": lost_s, "slot": slot_s, "limit": limit}
        return self.tx.execute(SWEEP.encode(), given).rowcount

    def remove_done(self, older_than_s: float, limit: int) -> int:
        return self.tx.execute(REMOVE_DONE, {"older": older_than_s, "limit": limit}).rowcount

    def counts(self) -> dict[str, int]:
        return self.tx.execute(COUNTS).fetchone() or {}


def _keys(waiting: Sequence[Waiting]) -> dict[str, Any]:
    return {"tasks": [w.task for w in waiting], "attempts": [w.attempt for w in waiting]}
