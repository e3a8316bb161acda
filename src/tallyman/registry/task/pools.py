"""Pools and slots: how many tasks may run at once, leased with the claim of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.task.task import Slot, Task
from tallyman.domain.version.owner import Owner
from tallyman.errors import InUse
from tallyman.registry.database import Transaction
from tallyman.registry.task.wakeups import notify_pool

DEFINE = """
    INSERT INTO pools (org, project, name, unlimited)
    VALUES (%(org)s, %(project)s, %(name)s, %(unlimited)s)
    ON CONFLICT (org, project, name) DO UPDATE SET unlimited = excluded.unlimited
"""
ENSURE = """
    INSERT INTO pools (org, project, name, unlimited)
    VALUES (%(org)s, %(project)s, %(name)s, true) ON CONFLICT DO NOTHING
"""
NAMES = """
    SELECT name FROM pools WHERE org = %(org)s AND project = %(project)s ORDER BY name
"""
LIST = """
    SELECT p.name, p.unlimited, count(t.id) FILTER (WHERE t.status = 'Queued') AS queued,
           count(t.id) FILTER (WHERE t.status = 'Running') AS running
    FROM pools p LEFT JOIN tasks t
      ON (t.org, t.project, t.pool) = (p.org, p.project, p.name)
     AND t.status IN ('Queued', 'Running')
    WHERE p.org = %(org)s AND p.project = %(project)s
    GROUP BY p.name, p.unlimited ORDER BY p.name
"""
# The names of variables only: values may be secrets.
SLOTS = """
    SELECT pool, index, task_id, ARRAY(SELECT jsonb_object_keys(env) ORDER BY 1) AS variables
    FROM slots WHERE org = %(org)s AND project = %(project)s ORDER BY pool, index
"""
SLOT = """
    INSERT INTO slots (org, project, pool, index, env)
    VALUES (%(org)s, %(project)s, %(name)s, %(index)s, %(env)s)
    ON CONFLICT (org, project, pool, index) DO UPDATE SET env = excluded.env
"""
# A claim may take a slot at any time: those that are free go, and those that are left are taken.
SHRINK = """
    DELETE FROM slots
    WHERE org = %(org)s AND project = %(project)s AND pool = %(name)s AND index >= %(from)s
      AND task_id IS NULL
"""
LEFT = """
    SELECT count(*) AS n FROM slots
    WHERE org = %(org)s AND project = %(project)s AND pool = %(name)s AND index >= %(from)s
"""
LEASE = """
    UPDATE slots SET task_id = %(task)s
    WHERE (org, project, pool, index) = (
        SELECT org, project, pool, index FROM slots
        WHERE org = %(org)s AND project = %(project)s AND pool = %(pool)s AND task_id IS NULL
        ORDER BY index LIMIT 1 FOR UPDATE SKIP LOCKED   -- another claim is just taking it
    ) RETURNING pool, index, env
"""
HELD = "SELECT pool, index, env FROM slots WHERE task_id = %(task)s"
# Claims of one consumer wait for each other here, or two could both see the last free place.
CONSUMER_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%(consumer)s, 0))"
RUNNING = """
    SELECT count(*) AS n FROM tasks WHERE consumer = %(consumer)s AND status = 'Running'
"""
USE = """
    SELECT s.org, s.project, s.pool, count(*) AS slots, count(s.task_id) AS used
    FROM slots s GROUP BY s.org, s.project, s.pool ORDER BY s.org, s.project, s.pool
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    index: int
    variables: Sequence[str]
    task_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    name: str
    slots: Sequence[SlotState] | None
    """None: any number of tasks may run at once."""
    queued: int
    running: int


class Pools:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def define(
        self, owner: Owner, name: str, slots: Sequence[Mapping[str, str]] | None = None
    ) -> None:
        """Make or change a pool: one slot per environment, or None for any number of tasks. Raises
        InUse if a slot that would go is taken."""
        place = owner.key | {"name": name}
        self.tx.execute(DEFINE, {**place, "unlimited": slots is None})
        extra = {**place, "from": len(slots or ())}
        self.tx.execute(SHRINK, extra)
        row = self.tx.execute(LEFT, extra).fetchone()
        if row and row["n"]:
            raise InUse(f"the last slots of pool {name!r}", f"{row['n']} of them are taken")
        for index, env in enumerate(slots or ()):
            self.tx.execute(SLOT, {**place, "index": index, "env": Jsonb(dict(env))})
        notify_pool(self.tx, owner, name)  # there may be more place now

    def ensure(self, owner: Owner, name: str) -> None:
        """Make the pool for any number of tasks, unless it is there."""
        self.tx.execute(ENSURE, owner.key | {"name": name})

    def names(self, owner: Owner) -> list[str]:
        return [row["name"] for row in self.tx.execute(NAMES, owner.key).fetchall()]

    def states(self, owner: Owner) -> list[PoolState]:
        """List the pools of a pipeline, with their slots and the tasks that are there for them."""
        slots: dict[str, list[SlotState]] = {}
        for row in self.tx.execute(SLOTS, owner.key).fetchall():
            pool = row.pop("pool")
            slots.setdefault(pool, []).append(SlotState(**row))
        return [
            PoolState(
                name=row["name"],
                slots=None if row["unlimited"] else slots.get(row["name"], []),
                queued=row["queued"],
                running=row["running"],
            )
            for row in self.tx.execute(LIST, owner.key).fetchall()
        ]

    def lease(self, task: Task) -> Slot | None:
        """Take a free slot for the task; None if there is none."""
        row = self.tx.execute(LEASE, {**_place(task), "task": task.id}).fetchone()
        return None if row is None else Slot(**row)

    def held(self, task: UUID) -> Slot | None:
        row = self.tx.execute(HELD, {"task": task}).fetchone()
        return None if row is None else Slot(**row)

    def running(self, task: Task) -> int:
        """Count the running tasks of the task's asset; other claims of it wait until the
        transaction ends."""
        consumer = f"{task.org}/{task.project}/{task.kind}/{task.asset}"
        self.tx.execute(CONSUMER_LOCK, {"consumer": consumer})
        row = self.tx.execute(RUNNING, {"consumer": consumer}).fetchone()
        return int(row["n"]) if row else 0

    def use(self) -> list[dict[str, Any]]:
        """Count slots and taken slots of every pool that has slots."""
        return self.tx.execute(USE).fetchall()


def _place(task: Task) -> dict[str, Any]:
    return {"org": task.org, "project": task.project, "pool": task.pool}
