"""Runs that may be removed, and what keeps the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

# Results that stay: rows of a version, the newest result of a target (its rejections are the open
# ones), what a staying run reused, and everything these were made from.
NEEDED = """
    WITH RECURSIVE published AS (
        SELECT f.materialization_id AS id, min(d.name || ' v' || v.ordinal) AS version
        FROM version_fragments vf
        JOIN versions v ON v.dataset_id = vf.dataset_id AND v.purged_at IS NULL
            AND v.ordinal >= vf.since AND (vf.until IS NULL OR v.ordinal < vf.until)
        JOIN fragments f ON f.id = vf.fragment_id
        JOIN datasets d ON d.id = vf.dataset_id
        WHERE f.materialization_id IS NOT NULL
        GROUP BY 1
    ), ended AS (
        SELECT m.id, m.asset_name, coalesce(m.partition, '') AS part, m.status, m.seq
        FROM materializations m
        WHERE m.org = %(org)s AND m.project = %(project)s
          AND m.status IN ('success', 'failed')
    ), newest AS (   -- of each target, and the newest good one if that failed
        (SELECT DISTINCT ON (asset_name, part) id, asset_name FROM ended
         ORDER BY asset_name, part, seq DESC)
        UNION
        (SELECT DISTINCT ON (asset_name, part) id, asset_name FROM ended WHERE status = 'success'
         ORDER BY asset_name, part, seq DESC)
    ), kept (id) AS (
        SELECT id FROM published
        UNION SELECT id FROM newest
        UNION SELECT m.reused_id FROM materializations m JOIN runs r ON r.id = m.run_id
              WHERE m.reused_id IS NOT NULL AND r.removed_at IS NULL
                AND NOT m.run_id = ANY(%(runs)s)
        UNION SELECT unnest(m.upstream_ids || m.reused_id || m.replays || m.adds_to)
              FROM kept k JOIN materializations m ON m.id = k.id
    )
    SELECT m.run_id, min(p.version) AS version, min(n.asset_name) AS asset
    FROM kept k
    JOIN materializations m ON m.id = k.id
    LEFT JOIN published p ON p.id = k.id
    LEFT JOIN newest n ON n.id = k.id
    WHERE m.run_id = ANY(%(runs)s)
    GROUP BY 1
"""
OLD = """
    SELECT id FROM runs
    WHERE org = %(org)s AND project = %(project)s AND removed_at IS NULL
      AND coalesce(completed_at, started_at)
          <= clock_timestamp() - make_interval(secs => %(older)s)
      AND status NOT IN ('running', 'waiting_approval')
    ORDER BY seq
"""
MARK = """
    UPDATE runs SET removed_at = clock_timestamp(), removed_by = %(actor)s
    WHERE id = ANY(%(runs)s) AND removed_at IS NULL
      AND status NOT IN ('running', 'waiting_approval')
"""
LEFT = """
    SELECT folder FROM runs
    WHERE org = %(org)s AND project = %(project)s AND removed_at IS NOT NULL
"""


class Removals:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def kept(self, runs: Collection[UUID], owner: Owner) -> dict[UUID, str]:
        """Say of each run that cannot be removed together with the others what needs it. A run that
        stays may need another one in turn.
        """
        found: dict[UUID, str] = {}
        left = set(runs)
        while left:
            rows = self.tx.execute(NEEDED, owner.key | {"runs": list(left)}).fetchall()
            for row in rows:
                found[row["run_id"]] = _reason(row["version"], row["asset"])
            if not rows:
                break
            left -= {row["run_id"] for row in rows}
        return found

    def older_than(self, seconds: float, owner: Owner) -> list[UUID]:
        """List ended runs that are older, and were not removed yet."""
        rows = self.tx.execute(OLD, owner.key | {"older": seconds}).fetchall()
        return [row["id"] for row in rows]

    def mark(self, runs: Sequence[UUID], actor: str) -> None:
        self.tx.execute(MARK, {"runs": list(runs), "actor": actor[:255]})

    def folders(self, owner: Owner) -> list[str]:
        """List the folders of removed runs, which a crash may have left."""
        return [r["folder"] for r in self.tx.execute(LEFT, owner.key).fetchall()]


def _reason(version: str | None, asset: str | None) -> str:
    if version is not None:
        return f"{version} has rows that it made"
    if asset is not None:
        return f"it made the newest result of {asset}"
    return "a result that stays was made from it, or reused it"
