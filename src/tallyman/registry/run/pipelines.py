"""Pipelines: every definition that was ever run or applied, and which one is active."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.errors import NotFound
from tallyman.registry.database import Transaction

ADD = """
    INSERT INTO pipeline_versions (project, hash, definition)
    VALUES (%(project)s, %(hash)s, %(definition)s)
    ON CONFLICT DO NOTHING
"""
ACTIVE = """
    SELECT p.active_version, v.definition FROM pipelines p
    JOIN pipeline_versions v ON v.project = p.project AND v.hash = p.active_version
    WHERE p.project = %(project)s
"""
ACTIVATE = """
    INSERT INTO pipelines (project, active_version, commit_id)
    VALUES (%(project)s, %(hash)s, %(commit)s)
    ON CONFLICT (project) DO UPDATE
    SET active_version = excluded.active_version, commit_id = excluded.commit_id
"""
# Rolled back and not applied again since: an ordinary run must not bring it back.
ROLLED_BACK = """
    SELECT r.id, r.actor, r.created_at FROM commits r
    WHERE r.project = %(project)s AND r.kind = 'rollback' AND r.details ->> 'from' = %(hash)s
      AND r.pipeline_version IS DISTINCT FROM %(hash)s
      AND NOT EXISTS (SELECT FROM commits a
                      WHERE a.project = r.project AND a.seq > r.seq
                        AND a.pipeline_version = %(hash)s)
    ORDER BY r.seq DESC LIMIT 1
"""
ADD_PLAN = """
    INSERT INTO plans (id, project, actor, content)
    VALUES (%(id)s, %(project)s, %(actor)s, %(content)s)
    ON CONFLICT (id) DO NOTHING
"""
GET_PLAN = """
    SELECT id, actor, content, commit_id, created_at FROM plans
    WHERE project = %(project)s
      AND (starts_with(id::text, %(wanted)s) OR %(wanted)s = 'latest')
    ORDER BY created_at DESC LIMIT 2
"""
APPLIED = "UPDATE plans SET commit_id = %(commit)s WHERE id = %(id)s"


class Pipelines:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(self, project: str, hash: str, definition: Mapping[str, Any]) -> None:
        given = {"project": project, "hash": hash, "definition": Jsonb(dict(definition))}
        self.tx.execute(ADD, given)

    def active(self, project: str) -> tuple[str, dict[str, Any]] | None:
        """Return hash and definition of the active pipeline; None before the first publication."""
        row = self.tx.execute(ACTIVE, {"project": project}).fetchone()
        return (row["active_version"], row["definition"]) if row else None

    def activate(self, project: str, hash: str, commit: UUID) -> None:
        self.tx.execute(ACTIVATE, {"project": project, "hash": hash, "commit": commit})

    def rolled_back(self, project: str, hash: str) -> dict[str, Any] | None:
        """Find the rollback that removed this definition, unless it was applied again."""
        return self.tx.execute(ROLLED_BACK, {"project": project, "hash": hash}).fetchone()

    # ---- plans ------------------------------------------------------------------------------

    def keep(self, plan: UUID, project: str, actor: str, content: Mapping[str, Any]) -> None:
        given = {"id": plan, "project": project, "actor": actor, "content": Jsonb(dict(content))}
        self.tx.execute(ADD_PLAN, given)

    def plan(self, wanted: str, project: str) -> dict[str, Any]:
        """Find a plan by id, a prefix of it, or `latest`."""
        given = {"wanted": wanted.lower(), "project": project}
        rows = self.tx.execute(GET_PLAN, given).fetchall()
        if not rows or (len(rows) > 1 and wanted != "latest"):
            raise NotFound("plan", wanted)
        return rows[0]

    def applied(self, plan: UUID, commit: UUID) -> None:
        self.tx.execute(APPLIED, {"id": plan, "commit": commit})
