"""Approvals: one question per result, answered once, or expired by the database's clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.pipeline.approval import Decision
from tallyman.domain.pipeline.target import Target
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

COLUMNS = """
    a.id, a.run_id, r.name AS run, a.asset_name AS asset, a.partition, a.checkpoint_name,
    a.message, a.context, a.timeout_at, a.status, a.decision_by, a.decision_at, a.reason,
    a.modifications
"""
ASK = """
    INSERT INTO approvals (run_id, asset_name, partition, attempt, checkpoint_name, message,
                           context, timeout_at)
    VALUES (%(run)s, %(asset)s, %(partition)s, %(attempt)s, %(asset)s, %(message)s, %(context)s,
            clock_timestamp() + make_interval(secs => %(timeout_s)s))
    ON CONFLICT (run_id, asset_name, coalesce(partition, ''), attempt) DO NOTHING
"""
EXPIRE = """
    UPDATE approvals a SET status = 'expired' FROM runs r
    WHERE r.id = a.run_id AND r.org = %(org)s AND r.project = %(project)s
      AND a.status = 'pending' AND a.timeout_at <= clock_timestamp()
    RETURNING a.id, a.run_id, a.asset_name AS asset, a.partition, a.message, a.timeout_at
"""
DECIDE = """
    UPDATE approvals
    SET status = %(status)s, decision_by = %(actor)s, decision_at = clock_timestamp(),
        reason = %(reason)s, modifications = %(modifications)s, decision_key = %(key)s
    WHERE id = %(id)s AND (status = 'pending'      -- no row: already decided
                           OR decision_key = %(key)s)  -- the same answer may be repeated
    RETURNING id
"""
NEWEST = f"""
    SELECT {COLUMNS} FROM approvals a JOIN runs r ON r.id = a.run_id
    WHERE a.run_id = %(run)s AND a.asset_name = %(asset)s
      AND coalesce(a.partition, '') = coalesce(%(partition)s, '')
    ORDER BY a.attempt DESC LIMIT 1
"""
LIST = f"""
    SELECT {COLUMNS} FROM approvals a JOIN runs r ON r.id = a.run_id
    WHERE r.org = %(org)s AND r.project = %(project)s
      AND (%(status)s::text IS NULL OR a.status = %(status)s)
    ORDER BY a.inserted_at
"""


class Approvals:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def ask(
        self,
        run: UUID,
        target: Target,
        *,
        attempt: int,
        message: str,
        timeout_s: int,
        context: Mapping[str, Any],
    ) -> None:
        given = {
            "run": run,
            "asset": target.asset,
            "partition": target.partition,
            "attempt": attempt,
            "message": message,
            "timeout_s": timeout_s,
            "context": Jsonb(dict(context)),
        }
        self.tx.execute(ASK, given)

    def expire(self, owner: Owner) -> list[dict[str, Any]]:
        """Mark overdue questions as expired, and return each of them once."""
        return self.tx.execute(EXPIRE, owner.key).fetchall()

    def decide(self, approval: UUID, decision: Decision) -> bool:
        given = {
            "id": approval,
            "status": decision.word,
            "actor": decision.actor[:255],
            "reason": decision.reason,
            "modifications": Jsonb(dict(decision.modifications))
            if decision.modifications
            else None,
            "key": decision.key,
        }
        return self.tx.execute(DECIDE, given).fetchone() is not None

    def newest(self, run: UUID, target: Target) -> dict[str, Any] | None:
        given = {"run": run, "asset": target.asset, "partition": target.partition}
        return self.tx.execute(NEWEST, given).fetchone()

    def list(self, owner: Owner, *, status: str | None = None) -> list[dict[str, Any]]:
        return self.tx.execute(LIST, owner.key | {"status": status}).fetchall()
