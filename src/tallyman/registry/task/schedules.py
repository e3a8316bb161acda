"""Schedules: their next tick, claimed by one server at a time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from tallyman.domain.task.task import TaskTemplate
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

TICK_LOCK = 0x7A11_0010
NOW = "SELECT clock_timestamp() AS now"
SET = """
    INSERT INTO schedules (org, project, name, cron, timezone, pool, template, next_at)
    VALUES (%(org)s, %(project)s, %(name)s, %(cron)s, %(timezone)s, %(pool)s, %(template)s,
            %(next_at)s)
    ON CONFLICT (org, project, name) DO UPDATE
    SET template = excluded.template, pool = excluded.pool,
        cron = excluded.cron, timezone = excluded.timezone,
        -- a changed schedule has no ticks to catch up with
        next_at = CASE WHEN (schedules.cron, schedules.timezone)
            = (excluded.cron, excluded.timezone) THEN schedules.next_at ELSE excluded.next_at END
"""
KEEP = """
    DELETE FROM schedules
    WHERE org = %(org)s AND project = %(project)s AND template ->> 'kind' = %(kind)s
      AND name <> ALL(%(names)s)
"""
TRY_LOCK = "SELECT pg_try_advisory_xact_lock(%(lock)s) AS got"
DUE = """
    SELECT org, project, name, cron, timezone, template, clock_timestamp() AS now FROM schedules
    WHERE next_at <= clock_timestamp()
    ORDER BY next_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
"""
ADVANCE = """
    UPDATE schedules
    SET next_at = %(next_at)s, last_at = %(tick)s
    WHERE org = %(org)s AND project = %(project)s AND name = %(name)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSchedule:
    org: str
    project: str
    name: str
    cron: str
    timezone: str
    template: TaskTemplate
    now: datetime


class Schedules:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def now(self) -> datetime:
        row = self.tx.execute(NOW).fetchone()
        assert row is not None
        return row["now"]

    def put(
        self, name: str, cron: str, timezone: str, template: TaskTemplate, next_at: datetime
    ) -> None:
        """Add or change a schedule."""
        given: dict[str, Any] = {
            "org": template.org,
            "project": template.project,
            "name": name,
            "cron": cron,
            "timezone": timezone,
            "pool": template.pool,
            "template": Jsonb(template.to_json()),
            "next_at": next_at,
        }
        self.tx.execute(SET, given)

    def keep(self, owner: Owner, kind: str, names: Collection[str]) -> None:
        """Remove all schedules of a pipeline for one kind of task, but the named ones."""
        self.tx.execute(KEEP, owner.key | {"kind": kind, "names": sorted(names)})

    def due(self, limit: int) -> list[DueSchedule]:
        """Lock the schedules that are due; none if another server is at it."""
        row = self.tx.execute(TRY_LOCK, {"lock": TICK_LOCK}).fetchone()
        if row is None or not row["got"]:
            return []
        rows = self.tx.execute(DUE, {"limit": limit}).fetchall()
        return [
            DueSchedule(template=TaskTemplate.of_json(row.pop("template")), **row) for row in rows
        ]

    def advance(self, schedule: DueSchedule, next_at: datetime, *, tick: datetime) -> None:
        given: dict[str, Any] = {"org": schedule.org, "project": schedule.project}
        given |= {"name": schedule.name, "next_at": next_at, "tick": tick}
        self.tx.execute(ADVANCE, given)
