"""Tasks: added once per dedupe key, locked before they are decided about, listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.task.event import Scope
from tallyman.domain.task.state import TaskStatus
from tallyman.domain.task.task import NewTask, Task, TriggerKind
from tallyman.domain.version.owner import Owner
from tallyman.errors import NotFound
from tallyman.registry.database import Transaction
from tallyman.registry.task.wakeups import notify

COLUMNS = """
    id, org, project, kind, asset, pipeline_version, run_id, config, trigger, event_id, dedupe_key,
    scope, pool, priority, max_concurrency, status, attempt, failures, max_attempts, timeout_s,
    lease_s, lease_token, lease_until, deadline_at, next_retry_at, held_by, cancel_requested_at,
    worker, error, created_at, finished_at, attempts_before,
    NOT (SELECT p.unlimited FROM pools p
         WHERE (p.org, p.project, p.name) = (tasks.org, tasks.project, tasks.pool)) AS limited
"""
ADD = """
    INSERT INTO tasks (id, org, project, kind, asset, pipeline_version, run_id, config, trigger,
                       event_id, dedupe_key, scope, pool, priority, max_concurrency, max_attempts,
                       retry_delays_s, timeout_s, lease_s, held_by)
    SELECT * FROM jsonb_to_recordset(%(tasks)s) AS t (
        id uuid, org text, project text, kind text, asset text, pipeline_version text, run_id uuid,
        config jsonb, trigger text, event_id uuid, dedupe_key text, scope jsonb, pool text,
        priority smallint, max_concurrency integer, max_attempts integer, retry_delays_s integer[],
        timeout_s integer, lease_s integer, held_by text)
    ORDER BY id              -- one order for all: two that add the same tasks do not deadlock
    ON CONFLICT DO NOTHING   -- the event was replayed
    RETURNING id
"""
FIND = f"SELECT {COLUMNS} FROM tasks WHERE id = %(id)s AND org = %(org)s AND project = %(project)s"
LOCK = f"{FIND} FOR UPDATE"
# One look at the index for each lane finds the head of it, its most urgent task. Of the lanes with
# place for one more, that of the most urgent head gives a task that no other claim is just taking:
# a full pool, or thousands of tasks of an asset at its limit, cost no more than a look at one row.
# The places are counted again when the task is locked.
LOCK_NEXT = f"""
    WITH RECURSIVE open AS (
        SELECT p.org || '/' || p.project || '/' || p.name AS queue FROM pools p
        WHERE p.org = %(org)s AND p.project = %(project)s AND p.name = ANY(%(pools)s)
          AND (p.unlimited OR EXISTS (
              SELECT FROM slots s WHERE (s.org, s.project, s.pool) = (p.org, p.project, p.name)
                AND s.task_id IS NULL))
    ), heads AS (
        SELECT head.* FROM open CROSS JOIN LATERAL (
            SELECT queue, lane, consumer, max_concurrency, priority, created_at FROM tasks
            WHERE queue = open.queue AND status = 'Queued' AND held_by IS NULL
            ORDER BY lane, priority DESC, created_at LIMIT 1) head
        UNION ALL
        SELECT next.* FROM heads CROSS JOIN LATERAL (
            SELECT queue, lane, consumer, max_concurrency, priority, created_at FROM tasks
            WHERE queue = heads.queue AND lane > heads.lane
              AND status = 'Queued' AND held_by IS NULL
            ORDER BY lane, priority DESC, created_at LIMIT 1) next
    ), lanes AS (
        SELECT queue, lane FROM heads
        WHERE lane = '' OR max_concurrency > (
            SELECT count(*) FROM tasks r
            WHERE r.consumer = heads.consumer AND r.status = 'Running')
        ORDER BY priority DESC, created_at
    )
    SELECT found.* FROM lanes CROSS JOIN LATERAL (
        SELECT {COLUMNS} FROM tasks
        WHERE queue = lanes.queue AND lane = lanes.lane AND status = 'Queued' AND held_by IS NULL
        ORDER BY priority DESC, created_at LIMIT 1 FOR UPDATE SKIP LOCKED) found
    LIMIT 1
"""
LIST = f"""
    SELECT {COLUMNS} FROM tasks
    WHERE org = %(org)s AND project = %(project)s
      AND (%(status)s::text IS NULL OR status = %(status)s)
      AND (%(asset)s::text IS NULL OR asset = %(asset)s)
      AND (%(run)s::uuid IS NULL OR run_id = %(run)s)
    ORDER BY created_at DESC, id LIMIT %(limit)s
"""
# Two are enough to know that a prefix is not unique.
STARTING = """
    SELECT id FROM tasks
    WHERE org = %(org)s AND project = %(project)s AND id::text LIKE %(prefix)s || '%%' LIMIT 2
"""
ATTEMPTS = """
    SELECT attempt, worker, slot, started_at, ended_at, outcome, error FROM attempts
    WHERE task_id = %(id)s ORDER BY attempt
"""
PINS = "SELECT pins FROM attempts WHERE task_id = %(id)s AND attempt = %(attempt)s"
PIN = "UPDATE attempts SET pins = %(pins)s WHERE task_id = %(id)s AND attempt = %(attempt)s"
# Tasks that nobody has begun are made by the version that is active when they begin.
MOVE = """
    UPDATE tasks SET pipeline_version = %(version)s
    WHERE org = %(org)s AND project = %(project)s AND kind = %(kind)s AND status = 'Queued'
      AND run_id IS NULL AND asset = ANY(%(assets)s)
      AND pipeline_version IS DISTINCT FROM %(version)s
"""
DROP = """
    UPDATE tasks SET status = 'Canceled', finished_at = clock_timestamp(),
        error = jsonb_build_object('code', 'trigger_gone', 'message', %(reason)s::text)
    WHERE org = %(org)s AND project = %(project)s AND kind = %(kind)s AND status = 'Queued'
      AND run_id IS NULL AND asset <> ALL(%(assets)s)
"""
REMOVE_FINISHED = """
    DELETE FROM tasks WHERE id IN (
        SELECT id FROM tasks
        WHERE finished_at < clock_timestamp() - make_interval(secs => %(older)s)
        ORDER BY finished_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    )
"""
COUNTS = "SELECT status, count(*) AS n FROM tasks GROUP BY status"
QUEUED = """
    SELECT queue, count(*) AS n FROM tasks
    WHERE status = 'Queued' AND held_by IS NULL GROUP BY queue ORDER BY queue
"""


class Tasks:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(self, tasks: Sequence[NewTask]) -> list[UUID]:
        """Add the tasks that are not there yet, and return their ids."""
        if not tasks:
            return []
        given = Jsonb([_row(task) for task in tasks])
        added = [row["id"] for row in self.tx.execute(ADD, {"tasks": given}).fetchall()]
        notify(self.tx, added)
        return added

    def get(self, task: UUID, owner: Owner) -> Task:
        return self._one(FIND, task, owner)

    def lock(self, task: UUID, owner: Owner) -> Task:
        """Return the task as it is now; nobody changes it until the transaction ends."""
        return self._one(LOCK, task, owner)

    def lock_next(self, owner: Owner, pools: Sequence[str]) -> Task | None:
        """Lock the most urgent task of the pools that may begin; None if there is none."""
        given = owner.key | {"pools": list(pools)}
        row = self.tx.execute(LOCK_NEXT.encode(), given).fetchone()
        return None if row is None else task_of(row)

    def _one(self, query: str, task: UUID, owner: Owner) -> Task:
        given = {"id": task, "org": owner.org, "project": owner.project}
        row = self.tx.execute(query.encode(), given).fetchone()
        if row is None:
            raise NotFound("task", str(task))
        return task_of(row)

    def attempts(self, task: UUID) -> Sequence[dict[str, Any]]:
        return self.tx.execute(ATTEMPTS, {"id": task}).fetchall()

    def pin(self, task: Task, pins: Mapping[str, Any]) -> None:
        """Record the inputs and outputs that the current attempt is assigned."""
        given = {"id": task.id, "attempt": task.attempt, "pins": Jsonb(dict(pins))}
        self.tx.execute(PIN, given)

    def pins(self, task: Task) -> Mapping[str, Any]:
        row = self.tx.execute(PINS, {"id": task.id, "attempt": task.attempt}).fetchone()
        return (row and row["pins"]) or {}

    def starting(self, prefix: str, owner: Owner) -> list[UUID]:
        """List tasks whose id begins like this, two at most."""
        given = owner.key | {"prefix": prefix}
        return [row["id"] for row in self.tx.execute(STARTING, given).fetchall()]

    def list(
        self,
        owner: Owner,
        *,
        status: TaskStatus | None = None,
        asset: str | None = None,
        run: UUID | None = None,
        limit: int = 50,
    ) -> list[Task]:
        """List tasks, newest first."""
        given = owner.key | {"limit": limit, "asset": asset, "run": run}
        given |= {"status": status.value if status else None}
        return [task_of(row) for row in self.tx.execute(LIST.encode(), given).fetchall()]

    def move(self, owner: Owner, kind: str, version: str, assets: Sequence[str]) -> None:
        """Let another pipeline version make the tasks of these assets that belong to no run and
        were not begun; cancel those of other assets."""
        given = owner.key | {"kind": kind, "version": version, "assets": list(assets)}
        self.tx.execute(MOVE, given)
        reason = f"its asset has no trigger in pipeline version {version[:8]}"
        self.tx.execute(DROP, given | {"reason": reason})

    def remove_finished(self, older_than_s: float, limit: int) -> int:
        """Remove a batch of tasks that finished that long ago, with their attempts."""
        given = {"older": older_than_s, "limit": limit}
        return self.tx.execute(REMOVE_FINISHED, given).rowcount

    def counts(self) -> dict[str, int]:
        found = {status.value: 0 for status in TaskStatus}
        return found | {row["status"]: row["n"] for row in self.tx.execute(COUNTS).fetchall()}

    def queued(self) -> dict[str, int]:
        """Count the tasks of each pool that may be claimed."""
        return {row["queue"]: row["n"] for row in self.tx.execute(QUEUED).fetchall()}


def task_of(row: Mapping[str, Any]) -> Task:
    found = dict(row)
    found["trigger"] = TriggerKind(found["trigger"])
    found["status"] = TaskStatus(found["status"])
    found["scope"] = Scope.of_json(found["scope"])
    return Task(**found)


def _row(task: NewTask) -> dict[str, Any]:
    template = task.template
    return {
        "id": str(task.id),
        "org": template.org,
        "project": template.project,
        "kind": template.kind,
        "asset": template.asset,
        "pipeline_version": template.pipeline_version,
        "run_id": str(task.run) if task.run else None,
        "config": dict(template.config),
        "trigger": task.trigger.value,
        "event_id": str(task.event) if task.event else None,
        "dedupe_key": task.dedupe_key,
        "scope": task.scope.to_json(),
        "pool": template.pool,
        "priority": template.priority,
        "max_concurrency": template.max_concurrency,
        "max_attempts": template.retry.attempts,
        "retry_delays_s": template.retry.delays_s,
        "timeout_s": template.retry.timeout_s,
        "lease_s": template.lease_s,
        "held_by": task.held_by,
    }
