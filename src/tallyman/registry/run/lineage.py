"""Lineage: what a result was made from, and what was made from it.

Edges are the inputs recorded with each success, and nothing else. Every walk goes level by level
and remembers what it has seen, so each result is reached with its smallest depth, and cycles end.
"""

from __future__ import annotations

from typing import get_args

from tallyman.domain.history.lineage import Granularity, Reached
from tallyman.domain.version.owner import Owner
from tallyman.errors import NotFound, UsageError
from tallyman.errors.wording import nearest
from tallyman.registry.database import Transaction

DEPTH_CAP = 100

# Follow ids: exactly the consumed results, even if newer ones exist, and also those of other
# pipelines. The start is listed too, with depth 0: no row at all means that there is nothing to
# start from.
UP = """
    WITH RECURSIVE newest AS (
        SELECT id, project, asset_name, partition FROM materializations
        WHERE org = %(org)s AND project = %(project)s AND asset_name = %(asset)s
          AND status = 'success' AND (%(partition)s::text IS NULL OR partition = %(partition)s)
        ORDER BY completion DESC LIMIT 1
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
        SELECT coalesce(u.project, m.project) AS project, u.asset, u.partition,
               u.id IS NULL AS is_source, min(w.depth) + 1 AS depth
        FROM walk w
        CROSS JOIN unnest(w.ids) AS reader (id)
        JOIN materializations m USING (id)
        CROSS JOIN unnest(m.upstream_projects, m.upstream_assets, m.upstream_partitions,
                          m.upstream_ids) AS u (project, asset, partition, id)
        WHERE w.depth < %(cap)s
        GROUP BY 1, 2, 3, 4
        UNION ALL
        SELECT project, asset_name, partition, false, 0 FROM newest
    )
    SELECT nullif(r.project, %(project)s) AS pipeline, r.asset, r.partition, r.depth, latest.status,
           CASE WHEN r.is_source THEN 'source' ELSE 'asset' END AS kind
    FROM reached r LEFT JOIN LATERAL (
        SELECT status FROM materializations
        WHERE NOT r.is_source AND org = %(org)s AND project = r.project AND asset_name = r.asset
          AND coalesce(partition, '') = coalesce(r.partition, '')
        ORDER BY seq DESC LIMIT 1
    ) AS latest ON true
    ORDER BY r.depth, nullif(r.project, %(project)s) COLLATE "C" NULLS FIRST, r.asset COLLATE "C",
             r.partition COLLATE "C" NULLS FIRST
"""

# The pair of everything with this name; a source is known only by its consumers, and a dataset of
# another pipeline by the name that its readers here give it.
PAIRS_OF_ASSET = """
    SELECT DISTINCT input_pair(org, project, asset_name, partition) AS pair
    FROM materializations
    WHERE org = %(org)s AND project = %(project)s AND asset_name = %(asset)s
      AND (%(partition)s::text IS NULL OR partition = %(partition)s)
"""
PAIRS_CONSUMED = """
    SELECT DISTINCT input_pair(m.org, m.project, u.asset, u.partition) AS pair
    FROM materializations m,
         unnest(m.upstream_projects, m.upstream_assets, m.upstream_partitions)
             AS u (project, asset, partition)
    WHERE m.upstream_assets @> ARRAY[%(asset)s::text] AND m.status = 'success'
      AND m.org = %(org)s AND m.project = %(project)s
      AND u.asset = %(asset)s AND coalesce(u.project, m.project) = m.project
      AND (%(partition)s::text IS NULL OR u.partition = %(partition)s)
"""
PAIRS_OF_DATASET = """
    SELECT DISTINCT input_pair(m.org, coalesce(u.project, m.project), u.asset, u.partition) AS pair
    FROM materializations m,
         unnest(m.upstream_inputs, m.upstream_projects, m.upstream_assets, m.upstream_partitions)
             AS u (input, project, asset, partition)
    WHERE m.upstream_inputs IS NOT NULL AND m.status = 'success'
      AND m.org = %(org)s AND m.project = %(project)s AND u.input = %(asset)s
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
                SELECT input_pair(m.org, m.project, m.asset_name, m.partition) AS pair
                FROM generate_series(1, cardinality(w.pairs), 32) AS n
                JOIN materializations m
                  ON m.upstream_pairs && w.pairs[n : n + 31] AND m.status = 'success'
                EXCEPT SELECT unnest(w.seen)
            ) AS fresh
        ) AS next
        WHERE w.depth < %(cap)s AND next.pairs IS NOT NULL
    ),
    reached AS (
        SELECT w.depth, split_part(pair, chr(31), 2) AS project,
               split_part(pair, chr(31), 3) AS asset, split_part(pair, chr(31), 4) AS partition
        FROM walk w, unnest(w.pairs) AS pair
        WHERE w.depth > 0
    )
    SELECT nullif(r.project, %(project)s) AS pipeline, r.asset,
           nullif(r.partition, '') AS partition, r.depth, latest.status, 'asset' AS kind
    FROM reached r CROSS JOIN LATERAL (
        SELECT status FROM materializations
        WHERE org = %(org)s AND project = r.project AND asset_name = r.asset
          AND coalesce(partition, '') = r.partition
        ORDER BY seq DESC LIMIT 1
    ) AS latest
    ORDER BY r.depth, nullif(r.project, %(project)s) COLLATE "C" NULLS FIRST, r.asset COLLATE "C",
             r.partition COLLATE "C"
"""

# Walk by project and name; then list every partition that ever succeeded, with its latest status.
IMPACT_BY_ASSET = """
    WITH RECURSIVE walk (depth, names, seen) AS (
        SELECT 0, %(assets)s::text[], %(assets)s::text[]
        UNION ALL
        SELECT w.depth + 1, next.names, w.seen || next.names
        FROM walk w CROSS JOIN LATERAL (
            SELECT array_agg(name) AS names FROM (
                SELECT m.project || chr(31) || m.asset_name AS name FROM materializations m
                WHERE m.upstream_assets && ARRAY(
                          SELECT split_part(name, chr(31), 2) FROM unnest(w.names) AS name)
                  AND m.org = %(org)s AND m.status = 'success'
                  AND EXISTS (
                      SELECT FROM unnest(m.upstream_projects, m.upstream_assets)
                          AS u (project, asset)
                      WHERE coalesce(u.project, m.project) || chr(31) || u.asset = ANY (w.names))
                EXCEPT SELECT unnest(w.seen)
            ) AS fresh
        ) AS next
        WHERE w.depth < %(cap)s AND next.names IS NOT NULL
    ),
    reached AS (
        SELECT w.depth, split_part(name, chr(31), 1) AS project,
               split_part(name, chr(31), 2) AS asset
        FROM walk w, unnest(w.names) AS name
        WHERE w.depth > 0
    )
    SELECT nullif(r.project, %(project)s) AS pipeline, r.asset, latest.partition, r.depth,
           latest.status, 'asset' AS kind
    FROM reached r CROSS JOIN LATERAL (
        SELECT DISTINCT ON (coalesce(partition, '')) partition, status FROM materializations
        WHERE org = %(org)s AND project = r.project AND asset_name = r.asset
        ORDER BY coalesce(partition, ''), seq DESC
    ) AS latest
    WHERE latest.status = 'success' OR EXISTS (
        SELECT FROM materializations
        WHERE org = %(org)s AND project = r.project AND asset_name = r.asset
          AND coalesce(partition, '') = coalesce(latest.partition, '') AND status = 'success'
    )
    ORDER BY r.depth, nullif(r.project, %(project)s) COLLATE "C" NULLS FIRST, r.asset COLLATE "C",
             latest.partition COLLATE "C" NULLS FIRST
"""

# JIT compilation takes longer than these walks, and the planner's cost estimate of a recursion is
# so high that the server would always compile.
WITHOUT_JIT = "SET LOCAL jit = off"

KNOWN_NAMES = """
    SELECT asset_name AS name FROM materializations
    WHERE org = %(org)s AND project = %(project)s
    UNION
    SELECT unnest(coalesce(upstream_inputs, upstream_assets)) FROM materializations
    WHERE org = %(org)s AND project = %(project)s AND status = 'success'
"""
SEPARATOR = chr(31)
"""Separates the parts of a pair: organisation, project, asset, partition."""


class Lineage:
    """Lineage queries that start in one pipeline and follow results into others. Without a
    partition, `up` starts at the newest success of any partition, the others at all partitions."""

    def __init__(self, tx: Transaction, owner: Owner) -> None:
        self._tx, self._owner = tx, owner

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
        starts = sorted({SEPARATOR.join(pair.split(SEPARATOR)[1:3]) for pair in pairs})
        return self._reached(IMPACT_BY_ASSET, assets=starts)

    def _reached(self, sql: str, **given: object) -> list[Reached]:
        self._tx.execute(WITHOUT_JIT)
        rows = self._tx.execute(sql.encode(), {**self._owner.key, **given, "cap": DEPTH_CAP})
        return [Reached(**row) for row in rows]

    def _pairs(self, asset: str, partition: str | None) -> list[str]:
        found = self._known(asset, partition)
        if not found:
            raise self._nothing("record of", asset, partition)
        return found

    def _known(self, asset: str, partition: str | None) -> list[str]:
        given = self._owner.key | {"asset": asset, "partition": partition}
        for sql in (PAIRS_OF_ASSET, PAIRS_CONSUMED, PAIRS_OF_DATASET):
            if found := [row["pair"] for row in self._tx.execute(sql, given)]:
                return found
        return []

    def _nothing(self, what: str, asset: str, partition: str | None) -> NotFound:
        names = [row["name"] for row in self._tx.execute(KNOWN_NAMES, self._owner.key)]
        if asset not in names:
            return NotFound("asset or source", asset, nearest(asset, names))
        if partition is None:
            return NotFound(what, asset)
        known = [pair.rpartition(SEPARATOR)[2] for pair in self._known(asset, None)]
        others = [one for one in known if one != partition]
        return NotFound(f"{what} {asset!r} in partition", partition, nearest(partition, others))
