"""Lineage: what a result was made from, and what was made from it.

Edges are the inputs recorded with each success, and nothing else. Every walk goes level by level
and remembers what it has seen, so each result is reached with its smallest depth, and cycles end.
"""

from __future__ import annotations

from typing import get_args

from tallyman.domain.history.lineage import Granularity, Reached
from tallyman.errors import NotFound, UsageError
from tallyman.errors.wording import nearest
from tallyman.registry.database import Transaction

DEPTH_CAP = 100

# Follow ids: exactly the consumed results, even if newer ones exist. The start is listed too, with
# depth 0: no row at all means that there is nothing to start from.
UP = """
    WITH RECURSIVE newest AS (
        SELECT id, asset_name, partition FROM materializations
        WHERE asset_name = %(asset)s AND status = 'success'
          AND (%(partition)s::text IS NULL OR partition = %(partition)s)
        ORDER BY completed_at DESC LIMIT 1
    ),
    walk (depth, ids, seen) AS (
        SELECT 0, ARRAY[id], ARRAY[id] FROM newest
        UNION ALL
        SELECT w.depth + 1, next.ids, w.seen || next.ids
        FROM walk w CROSS JOIN LATERAL (
            SELECT array_agg(id) AS ids FROM (
                SELECT u.id
                FROM materializations m, unnest(m.upstream_ids) AS u (id)
                WHERE m.id = ANY (w.ids) AND u.id IS NOT NULL
                EXCEPT SELECT unnest(w.seen)
            ) AS fresh
        ) AS next
        WHERE w.depth < %(cap)s AND next.ids IS NOT NULL
    ),
    reached AS (
        SELECT u.asset, u.partition, u.id IS NULL AS is_source, min(w.depth) + 1 AS depth
        FROM walk w
        CROSS JOIN unnest(w.ids) AS reader (id)
        JOIN materializations m USING (id)
        CROSS JOIN unnest(m.upstream_assets, m.upstream_partitions, m.upstream_ids)
            AS u (asset, partition, id)
        WHERE w.depth < %(cap)s
        GROUP BY 1, 2, 3
        UNION ALL
        SELECT asset_name, partition, false, 0 FROM newest
    )
    SELECT r.asset, r.partition, r.depth, latest.status,
           CASE WHEN r.is_source THEN 'source' ELSE 'asset' END AS kind
    FROM reached r LEFT JOIN LATERAL (
        SELECT status FROM materializations
        WHERE NOT r.is_source AND asset_name = r.asset
          AND coalesce(partition, '') = coalesce(r.partition, '')
        ORDER BY inserted_at DESC LIMIT 1
    ) AS latest ON true
    ORDER BY r.depth, r.asset COLLATE "C", r.partition COLLATE "C" NULLS FIRST
"""

# 'asset|partition' of everything with this name; a source is known only by its consumers.
PAIRS_OF_ASSET = """
    SELECT DISTINCT asset_name || '|' || coalesce(partition, '') AS pair
    FROM materializations
    WHERE asset_name = %(asset)s
      AND (%(partition)s::text IS NULL OR partition = %(partition)s)
"""
PAIRS_CONSUMED = """
    SELECT DISTINCT u.asset || '|' || coalesce(u.partition, '') AS pair
    FROM materializations m,
         unnest(m.upstream_assets, m.upstream_partitions) AS u (asset, partition)
    WHERE m.upstream_assets @> ARRAY[%(asset)s::text] AND m.status = 'success'
      AND u.asset = %(asset)s
      AND (%(partition)s::text IS NULL OR u.partition = %(partition)s)
"""

# Only `&&` and `@>` use the index on the inputs; `= ANY (...)` would read the whole table. A lookup
# of 32 inputs at a time finds a result that read several of them once; a lookup of thousands would
# compare every result with every input.
DOWN = """
    WITH RECURSIVE walk (depth, pairs, seen) AS (
        SELECT 0, %(pairs)s::text[], %(pairs)s::text[]
        UNION ALL
        SELECT w.depth + 1, next.pairs, w.seen || next.pairs
        FROM walk w CROSS JOIN LATERAL (
            SELECT array_agg(pair) AS pairs FROM (
                SELECT m.asset_name || '|' || coalesce(m.partition, '') AS pair
                FROM generate_series(1, cardinality(w.pairs), 32) AS n
                JOIN materializations m
                  ON m.upstream_pairs && w.pairs[n : n + 31] AND m.status = 'success'
                EXCEPT SELECT unnest(w.seen)
            ) AS fresh
        ) AS next
        WHERE w.depth < %(cap)s AND next.pairs IS NOT NULL
    ),
    reached AS (
        -- An asset's name never contains '|'.
        SELECT w.depth, split_part(pair, '|', 1) AS asset,
               substr(pair, strpos(pair, '|') + 1) AS partition
        FROM walk w, unnest(w.pairs) AS pair
        WHERE w.depth > 0
    )
    SELECT r.asset, nullif(r.partition, '') AS partition, r.depth, latest.status, 'asset' AS kind
    FROM reached r CROSS JOIN LATERAL (
        SELECT status FROM materializations
        WHERE asset_name = r.asset AND coalesce(partition, '') = r.partition
        ORDER BY inserted_at DESC LIMIT 1
    ) AS latest
    ORDER BY r.depth, r.asset COLLATE "C", r.partition COLLATE "C"
"""

# Walk by name; then list every partition that ever succeeded, with its latest status.
IMPACT_BY_ASSET = """
    WITH RECURSIVE walk (depth, names, seen) AS (
        SELECT 0, ARRAY[%(asset)s::text], ARRAY[%(asset)s::text]
        UNION ALL
        SELECT w.depth + 1, next.names, w.seen || next.names
        FROM walk w CROSS JOIN LATERAL (
            SELECT array_agg(name) AS names FROM (
                SELECT m.asset_name AS name FROM materializations m
                WHERE m.upstream_assets && w.names AND m.status = 'success'
                EXCEPT SELECT unnest(w.seen)
            ) AS fresh
        ) AS next
        WHERE w.depth < %(cap)s AND next.names IS NOT NULL
    )
    SELECT name AS asset, latest.partition, w.depth, latest.status, 'asset' AS kind
    FROM walk w, unnest(w.names) AS name CROSS JOIN LATERAL (
        SELECT DISTINCT ON (coalesce(partition, '')) partition, status FROM materializations
        WHERE asset_name = name
        ORDER BY coalesce(partition, ''), inserted_at DESC
    ) AS latest
    WHERE w.depth > 0 AND (latest.status = 'success' OR EXISTS (
        SELECT FROM materializations
        WHERE asset_name = name AND coalesce(partition, '') = coalesce(latest.partition, '')
          AND status = 'success'
    ))
    ORDER BY w.depth, name COLLATE "C", latest.partition COLLATE "C" NULLS FIRST
"""

# JIT compilation takes longer than these walks, and the planner's cost estimate of a recursion is
# so high that the server would always compile.
WITHOUT_JIT = "SET LOCAL jit = off"

KNOWN_NAMES = """
    SELECT asset_name AS name FROM materializations
    UNION
    SELECT unnest(upstream_assets) FROM materializations WHERE status = 'success'
"""


class Lineage:
    """Lineage queries. Without a partition, `up` starts at the newest success of any partition, the
    others at all partitions."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def up(self, asset: str, partition: str | None = None) -> list[Reached]:
        """List what the newest success was made from, down to the sources."""
        found = self._reached(UP, asset=asset, partition=partition)
        if not found:
            raise self._nothing("success of", asset, partition)
        return found[1:]

    def down(self, asset: str, partition: str | None = None) -> list[Reached]:
        """List what was made from an asset or a source, directly or indirectly."""
        return self._reached(DOWN, pairs=self._pairs(asset, partition))

    def impact(
        self, asset: str, partition: str | None = None, granularity: Granularity = "partition"
    ) -> list[Reached]:
        """List what to make again when it changes: the same as `down`, or with granularity `asset`
        every partition of every asset that depends on any partition of it."""
        if granularity not in get_args(Granularity):
            raise UsageError(f"granularity is 'partition' or 'asset', not {granularity!r}")
        pairs = self._pairs(asset, partition)
        if granularity == "partition":
            return self._reached(DOWN, pairs=pairs)
        return self._reached(IMPACT_BY_ASSET, asset=asset)

    def _reached(self, sql: str, **given: object) -> list[Reached]:
        self._tx.execute(WITHOUT_JIT)
        rows = self._tx.execute(sql.encode(), {**given, "cap": DEPTH_CAP})
        return [Reached(**row) for row in rows]

    def _pairs(self, asset: str, partition: str | None) -> list[str]:
        found = self._known(asset, partition)
        if not found:
            raise self._nothing("record of", asset, partition)
        return found

    def _known(self, asset: str, partition: str | None) -> list[str]:
        given = {"asset": asset, "partition": partition}
        for sql in (PAIRS_OF_ASSET, PAIRS_CONSUMED):
            if found := [row["pair"] for row in self._tx.execute(sql, given)]:
                return found
        return []

    def _nothing(self, what: str, asset: str, partition: str | None) -> NotFound:
        names = [row["name"] for row in self._tx.execute(KNOWN_NAMES)]
        if asset not in names:
            return NotFound("asset or source", asset, nearest(asset, names))
        if partition is None:
            return NotFound(what, asset)
        known = [pair.partition("|")[2] for pair in self._known(asset, None)]
        others = [one for one in known if one != partition]
        return NotFound(f"{what} {asset!r} in partition", partition, nearest(partition, others))
