"""Pipelines: every definition that was ever run or applied, and which one is active."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.pipeline.pipeline_version import PipelineVersion
from tallyman.domain.version.owner import Owner
from tallyman.errors import NotFound
from tallyman.registry.database import Transaction

ADD = """
    INSERT INTO pipeline_versions (org, project, hash, definition, plan, files)
    VALUES (%(org)s, %(project)s, %(hash)s, %(definition)s, %(plan)s, %(files)s)
    ON CONFLICT DO NOTHING
"""
FIND = """
    SELECT hash, definition, plan, files, created_at FROM pipeline_versions
    WHERE org = %(org)s AND project = %(project)s AND hash = %(hash)s
"""
MATCHING = """
    SELECT hash FROM pipeline_versions
    WHERE org = %(org)s AND project = %(project)s AND starts_with(hash, %(prefix)s)
    ORDER BY created_at DESC, hash
"""
LIST = """
    SELECT v.hash, v.definition, v.created_at,
           count(r.id) AS runs, (array_agg(r.started_at ORDER BY r.seq DESC))[1] AS last_run_at
    FROM pipeline_versions v
    LEFT JOIN runs r ON r.org = v.org AND r.project = v.project
     AND r.params ->> 'pipeline_version' = v.hash
    WHERE v.org = %(org)s AND v.project = %(project)s
    GROUP BY v.org, v.project, v.hash ORDER BY v.created_at DESC, v.hash LIMIT %(limit)s
"""
ACTIVE = """
    SELECT p.active_version, v.definition FROM pipelines p
    JOIN pipeline_versions v
      ON v.org = p.org AND v.project = p.project AND v.hash = p.active_version
    WHERE p.org = %(org)s AND p.project = %(project)s
"""
HELD_ACTIVE = """
    SELECT active_version FROM pipelines WHERE org = %(org)s AND project = %(project)s
    FOR SHARE   -- whoever activates another version waits
"""
# The summary of a version has the names of the datasets that it reads of other pipelines.
READERS = """
    SELECT p.project, p.active_version FROM pipelines p
    JOIN pipeline_versions v
      ON v.org = p.org AND v.project = p.project AND v.hash = p.active_version
    WHERE p.org = %(org)s AND p.project <> %(project)s AND EXISTS (
        SELECT FROM jsonb_each_text(v.definition -> 'datasets') d WHERE d.value = ANY(%(names)s))
    ORDER BY p.project
"""
ACTIVATE = """
    UPDATE pipelines SET active_version = %(hash)s, commit_id = %(commit)s
    WHERE org = %(org)s AND project = %(project)s   -- the run that made the version placed it
"""
# Write only what differs: most runs find the row as it is.
PLACE = """
    INSERT INTO pipelines (org, project, home, warehouse)
    VALUES (%(org)s, %(project)s, %(home)s, %(warehouse)s)
    ON CONFLICT (org, project) DO UPDATE
    SET home = excluded.home, warehouse = excluded.warehouse
    WHERE pipelines.home IS DISTINCT FROM excluded.home
       OR pipelines.warehouse IS DISTINCT FROM excluded.warehouse
"""
HOME = "SELECT home FROM pipelines WHERE org = %(org)s AND project = %(project)s"
# Rolled back and not applied again since: an ordinary run must not bring it back.
ROLLED_BACK = """
    SELECT r.id, r.actor, r.created_at FROM commits r
    WHERE r.org = %(org)s AND r.project = %(project)s
      AND r.kind = 'rollback' AND r.details ->> 'from' = %(hash)s
      AND r.pipeline_version IS DISTINCT FROM %(hash)s
      AND NOT EXISTS (SELECT FROM commits a
                      WHERE a.org = r.org AND a.project = r.project AND a.seq > r.seq
                        AND a.pipeline_version = %(hash)s)
    ORDER BY r.seq DESC LIMIT 1
"""
ADD_PLAN = """
    INSERT INTO plans (id, org, project, actor, content)
    VALUES (%(id)s, %(org)s, %(project)s, %(actor)s, %(content)s)
    ON CONFLICT (id) DO NOTHING
"""
GET_PLAN = """
    SELECT id, actor, content, commit_id, created_at FROM plans
    WHERE org = %(org)s AND project = %(project)s
      AND (starts_with(id::text, %(wanted)s) OR %(wanted)s = 'latest')
    ORDER BY seq DESC LIMIT 2
"""
APPLIED = "UPDATE plans SET commit_id = %(commit)s WHERE id = %(id)s"


class Pipelines:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(self, owner: Owner, version: PipelineVersion) -> None:
        """Keep the version, unless it is there: equal plans are one version."""
        given = owner.key | {
            "hash": version.hash,
            "definition": Jsonb(dict(version.definition)),
            "plan": version.plan,
            "files": Jsonb(dict(version.files)),
        }
        self.tx.execute(ADD, given)

    def find(self, owner: Owner, hash: str) -> PipelineVersion | None:
        row = self.tx.execute(FIND, owner.key | {"hash": hash}).fetchone()
        return PipelineVersion(**row) if row else None

    def matching(self, owner: Owner, prefix: str = "") -> list[str]:
        """List the hashes that begin with the prefix, newest first."""
        rows = self.tx.execute(MATCHING, owner.key | {"prefix": prefix}).fetchall()
        return [row["hash"] for row in rows]

    def versions(self, owner: Owner, limit: int) -> list[dict[str, Any]]:
        """List the versions, newest first, with the number of their runs."""
        return self.tx.execute(LIST, owner.key | {"limit": limit}).fetchall()

    def active(self, owner: Owner) -> tuple[str, dict[str, Any]] | None:
        """Return hash and definition of the active pipeline; None before the first publication."""
        row = self.tx.execute(ACTIVE, owner.key).fetchone()
        return (row["active_version"], row["definition"]) if row else None

    def held_active(self, owner: Owner) -> str | None:
        """Return the hash of the active version, which stays so until the transaction ends."""
        row = self.tx.execute(HELD_ACTIVE, owner.key).fetchone()
        return row["active_version"] if row else None

    def readers(self, owner: Owner, names: Collection[str]) -> list[tuple[Owner, str]]:
        """List the other pipelines whose active version reads one of the datasets of this one, with
        that version."""
        rows = self.tx.execute(READERS, owner.key | {"names": sorted(names)}).fetchall()
        return [(Owner(owner.org, row["project"]), row["active_version"]) for row in rows]

    def activate(self, owner: Owner, hash: str, commit: UUID) -> None:
        moved = self.tx.execute(ACTIVATE, owner.key | {"hash": hash, "commit": commit})
        assert moved.rowcount == 1

    def place(self, owner: Owner, home: str, warehouse: str) -> None:
        """Record where the pipeline's files are, before others can refer to them."""
        self.tx.execute(PLACE, owner.key | {"home": home, "warehouse": warehouse})

    def home(self, owner: Owner) -> str | None:
        """Return the folder of the pipeline; None if it was never run."""
        row = self.tx.execute(HOME, owner.key).fetchone()
        return row["home"] if row else None

    def rolled_back(self, owner: Owner, hash: str) -> dict[str, Any] | None:
        """Find the rollback that removed this definition, unless it was applied again."""
        return self.tx.execute(ROLLED_BACK, owner.key | {"hash": hash}).fetchone()

    # ---- plans ------------------------------------------------------------------------------

    def keep(self, plan: UUID, owner: Owner, actor: str, content: Mapping[str, Any]) -> None:
        given = owner.key | {"id": plan, "actor": actor, "content": Jsonb(dict(content))}
        self.tx.execute(ADD_PLAN, given)

    def plan(self, wanted: str, owner: Owner) -> dict[str, Any]:
        """Find a plan by id, a prefix of it, or `latest`."""
        given = owner.key | {"wanted": wanted.lower()}
        rows = self.tx.execute(GET_PLAN, given).fetchall()
        if not rows or (len(rows) > 1 and wanted != "latest"):
            raise NotFound("plan", wanted)
        return rows[0]

    def applied(self, plan: UUID, commit: UUID) -> None:
        self.tx.execute(APPLIED, {"id": plan, "commit": commit})
