"""The audit log: who did what, and when. Rows are added and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

ADD = """
    INSERT INTO audit_log (org, project, event_type, actor_id, resource, action, details,
                           correlation_id, key)
    VALUES (%(org)s, %(project)s, %(event)s, %(actor)s, %(resource)s, %(action)s, %(details)s,
            %(run)s, coalesce(%(key)s, gen_random_uuid()))
    ON CONFLICT (key) DO NOTHING
"""
LIST = """
    SELECT at, event_type, actor_id, resource, action, details, correlation_id
    FROM audit_log
    WHERE org = %(org)s AND project = %(project)s
      AND (%(run)s::uuid IS NULL OR correlation_id = %(run)s)
    ORDER BY id DESC LIMIT %(limit)s
"""


class Audit:
    def __init__(self, tx: Transaction, owner: Owner) -> None:
        self.tx, self.owner = tx, owner

    def add(
        self,
        event: str,
        actor: str,
        resource: str,
        *,
        run: UUID | None = None,
        details: Mapping[str, Any] | None = None,
        key: UUID | None = None,
    ) -> None:
        """Add an entry. `event` is `noun.action`, for example `run.started`. With a key, the entry
        is added once, even if a lost reply makes the caller repeat it."""
        self.tx.execute(
            ADD,
            self.owner.key
            | {
                "event": event,
                "actor": actor[:255],
                "resource": resource[:255],
                "action": event.rpartition(".")[2],
                "details": Jsonb(dict(details or {})),
                "run": run,
                "key": key,
            },
        )

    def list(self, run: UUID | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """List entries, newest first."""
        return self.tx.execute(LIST, self.owner.key | {"run": run, "limit": limit}).fetchall()
