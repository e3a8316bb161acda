"""Results that a canceled run takes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.registry.database import Transaction

# Nobody else has the result: no version contains its rows, and no other run reused it.
UNSHARED = """
    NOT EXISTS (SELECT FROM version_fragments vf WHERE vf.fragment_id = m.fragment_id)
    AND NOT EXISTS (SELECT FROM materializations o WHERE o.reused_id = m.id)
"""
DISCARD = f"""
    WITH RECURSIVE unwanted AS (
        SELECT m.id FROM materializations m
        WHERE m.run_id = %(run)s AND m.id = ANY(%(ids)s) AND m.status = 'success' AND {UNSHARED}
        UNION   -- what was made from it: a resume could make it from other inputs
        SELECT m.id FROM unwanted u JOIN materializations m ON u.id = ANY(m.upstream_ids)
        WHERE m.run_id = %(run)s AND m.status = 'success' AND {UNSHARED}
    )
    UPDATE materializations m
    SET status = 'canceled', location = NULL, error_message = %(message)s,
        metadata = m.metadata || %(metadata)s, updated_at = now()
    WHERE m.id IN (SELECT id FROM unwanted)
"""


def take_back(tx: Transaction, run: UUID, made: Sequence[UUID], error: Mapping[str, Any]) -> None:
    """Take back results of a run, and what the run made from them. Results that are published, or
    that another run reused, stay."""
    given = {"run": run, "ids": list(made), "message": str(error["message"])}
    tx.execute(DISCARD, given | {"metadata": Jsonb({"error": dict(error)})})
