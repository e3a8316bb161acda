"""Invalidations: what was replaced, and what was made from it and is therefore stale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.version.dataset import Dataset
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

ADD = """
    INSERT INTO invalidations (dataset_id, ordinal, scope, partition, reason, commit_id,
                               processed_at)
    VALUES (%(dataset)s, %(ordinal)s,
            CASE WHEN %(partition)s::text IS NULL THEN 'whole' ELSE 'partition' END,
            %(partition)s, %(reason)s, %(commit)s, clock_timestamp())
    RETURNING id
"""
# Follow only current results: a result that nobody reads is not stale. A later result with equal
# rows is the same fragment, and was made from others.
CASCADE = """
    WITH RECURSIVE stale (dataset_id, ordinal, partition, fragment_id) AS (
        SELECT f.dataset_id, d.ordinal, f.partition, f.id
        FROM materializations m
        JOIN fragments f ON f.materialization_id = m.id OR f.id = m.fragment_id
        JOIN version_fragments vf ON vf.fragment_id = f.id AND vf.until IS NULL
        JOIN datasets d ON d.id = f.dataset_id
        WHERE m.status = 'success'
          AND (m.upstream_fragments && %(gone)s::uuid[] OR m.upstream_pairs &&
               ARRAY[input_pair(%(org)s, %(project)s, %(table)s, NULL)])
      UNION
        SELECT f.dataset_id, d.ordinal, f.partition, f.id
        FROM stale s
        JOIN materializations m
             ON m.status = 'success' AND m.upstream_fragments @> ARRAY[s.fragment_id]
        JOIN fragments f ON f.materialization_id = m.id OR f.id = m.fragment_id
        JOIN version_fragments vf ON vf.fragment_id = f.id AND vf.until IS NULL
        JOIN datasets d ON d.id = f.dataset_id
    )
    INSERT INTO invalidations (dataset_id, ordinal, scope, partition, reason, caused_by, commit_id)
    SELECT DISTINCT s.dataset_id, s.ordinal,
           CASE WHEN s.partition IS NULL THEN 'whole' ELSE 'partition' END,
           s.partition, 'upstream', %(cause)s::uuid, %(commit)s::uuid
    FROM stale s
    WHERE NOT EXISTS (SELECT FROM invalidations i   -- once is enough
                      WHERE i.dataset_id = s.dataset_id AND i.processed_at IS NULL
                        AND i.partition IS NOT DISTINCT FROM s.partition)
"""
PROCESS = """
    UPDATE invalidations i SET processed_at = clock_timestamp()
    FROM invalidations cause
    WHERE cause.id = i.caused_by AND i.dataset_id = %(dataset)s AND i.processed_at IS NULL
      AND i.partition IS NOT DISTINCT FROM %(partition)s
      -- A replacement after the run had pinned its inputs is not what it read.
      AND cause.ordinal <= coalesce((%(pins)s::jsonb ->> cause.dataset_id::text)::integer, 0)
"""
STALE = """
    SELECT d.name AS dataset, d.producer, i.partition, i.created_at, c.partition AS cause_partition,
           u.name AS cause
    FROM invalidations i
    JOIN datasets d ON d.id = i.dataset_id
    JOIN invalidations c ON c.id = i.caused_by JOIN datasets u ON u.id = c.dataset_id
    WHERE d.org = %(org)s AND d.project = %(project)s
      AND i.processed_at IS NULL AND d.current_version IS NOT NULL
    ORDER BY d.name, i.partition
"""


class Invalidations:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(
        self, dataset: UUID, ordinal: int, partition: str | None, *, reason: str, commit: UUID
    ) -> UUID:
        given = {
            "dataset": dataset,
            "ordinal": ordinal,
            "partition": partition,
            "reason": reason,
            "commit": commit,
        }
        row = self.tx.execute(ADD, given).fetchone()
        assert row is not None
        return row["id"]

    def cascade(
        self, cause: UUID, commit: UUID, *, gone: Iterable[UUID] = (), table: Dataset | None = None
    ) -> None:
        """Mark everything current that was made from these fragments or this table as stale,
        directly or indirectly."""
        given = {"cause": cause, "gone": list(gone), "commit": commit}
        given |= {"table": table.producer if table else None}
        given |= table.owner.key if table else {"org": None, "project": None}
        self.tx.execute(CASCADE, given)

    def process(
        self, dataset: UUID, partitions: Iterable[str | None], pins: Mapping[UUID, int]
    ) -> None:
        """Clear the stale mark of these partitions: they were made again from these versions, or
        found unchanged."""
        given = {
            "dataset": dataset,
            "pins": Jsonb({str(read): ordinal for read, ordinal in pins.items()}),
        }
        with self.tx.cursor() as cursor:
            cursor.executemany(PROCESS, [given | {"partition": p} for p in partitions])

    def stale(self, owner: Owner) -> list[dict[str, Any]]:
        return self.tx.execute(STALE, owner.key).fetchall()
