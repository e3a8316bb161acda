"""Garbage: what nothing points to, and what must never be removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from tallyman.domain.version.dataset import Dataset
from tallyman.registry.database import Transaction

# A run that is running or waits for a decision will publish its prepared fragments. A fragment that
# is in no version may have been read: if its asset made the same rows again, the version kept the
# earlier ones.
ORPHANS = """
    WITH RECURSIVE kept (id) AS (
        SELECT made.materialization_id FROM fragments made
        WHERE made.materialization_id IS NOT NULL AND EXISTS (
            SELECT FROM version_fragments vf JOIN versions v
                 ON v.dataset_id = vf.dataset_id AND v.ordinal >= vf.since
                AND (vf.until IS NULL OR v.ordinal < vf.until)
            WHERE vf.fragment_id = made.id AND v.purged_at IS NULL)
        UNION
        SELECT u.id FROM kept JOIN materializations m USING (id), unnest(m.upstream_ids) AS u (id)
        WHERE u.id IS NOT NULL
    ), read AS (
        SELECT unnest(m.upstream_fragments) AS id FROM kept JOIN materializations m USING (id)
    )
    SELECT f.id FROM fragments f LEFT JOIN runs r ON r.id = f.run_id
    WHERE f.dataset_id = %(dataset)s AND f.purged_at IS NULL
      AND f.inserted_at <= clock_timestamp() - make_interval(secs => %(older)s)
      AND coalesce(r.status, 'failed') NOT IN ('running', 'waiting_approval')
      AND NOT EXISTS (SELECT FROM version_fragments vf WHERE vf.fragment_id = f.id)
      AND NOT EXISTS (SELECT FROM read WHERE read.id = f.id)
    ORDER BY f.id
"""
MARK = """
    UPDATE fragments SET purged_at = clock_timestamp()
    WHERE id = ANY(%(ids)s) AND purged_at IS NULL
"""
MARKED = "SELECT count(*) FROM fragments WHERE id = ANY(%(ids)s) AND purged_at IS NOT NULL"
IN_USE = """
    SELECT CASE
        WHEN v.ordinal = d.ordinal THEN 'it is current'
        WHEN now.restores = v.ordinal THEN 'it is current again, by a rollback'
        WHEN v.ordinal = d.ordinal - 1 THEN 'a rollback would return to it'
        WHEN EXISTS (SELECT FROM snapshots s WHERE s.dataset_id = d.id AND s.ordinal = v.ordinal)
            THEN 'a snapshot names it'
        WHEN EXISTS (SELECT FROM runs r
                     WHERE r.status IN ('running', 'waiting_approval')
                       AND (r.pins ->> d.id::text)::integer = v.ordinal)
            THEN 'an unfinished run reads it'
    END AS why, v.ordinal
    FROM versions v JOIN datasets d ON d.id = v.dataset_id
    LEFT JOIN versions now ON now.dataset_id = d.id AND now.ordinal = d.ordinal
    WHERE v.dataset_id = %(dataset)s AND v.purged_at IS NULL AND v.metadata_location IS NOT NULL
      AND (%(ordinal)s::integer IS NULL OR v.ordinal = %(ordinal)s)
      AND v.created_at <= clock_timestamp() - make_interval(secs => %(older)s)
    ORDER BY v.ordinal DESC
"""
PURGE = """
    UPDATE versions SET purged_at = clock_timestamp()
    WHERE dataset_id = %(dataset)s AND ordinal = ANY(%(ordinals)s) AND purged_at IS NULL
"""
# Fragments that are in these versions and in no version that stays.
ONLY_IN = """
    SELECT DISTINCT f.id FROM version_fragments vf
    JOIN fragments f ON f.id = vf.fragment_id
    WHERE vf.dataset_id = %(dataset)s AND f.purged_at IS NULL
      AND NOT EXISTS (
          SELECT FROM version_fragments other JOIN versions v
               ON v.dataset_id = other.dataset_id AND v.ordinal >= other.since
              AND (other.until IS NULL OR v.ordinal < other.until)
          WHERE other.dataset_id = vf.dataset_id AND other.fragment_id = f.id
            AND v.purged_at IS NULL AND v.metadata_location IS NOT NULL
            AND v.ordinal <> ALL(%(ordinals)s))
    ORDER BY f.id
"""
KNOWN = """
    SELECT id::text AS name FROM fragments WHERE dataset_id = %(dataset)s AND purged_at IS NULL
    UNION ALL
    SELECT split_part(reverse(split_part(reverse(metadata_location), '/', 1)), '.', 1)
    FROM versions
    WHERE dataset_id = %(dataset)s AND purged_at IS NULL AND metadata_location IS NOT NULL
      AND ordinal <> ALL(%(ordinals)s)
"""
MADE_AT = """
    SELECT m.location FROM fragments f
    JOIN materializations m ON m.id = f.materialization_id
                           AND m.fragment_id = f.id   -- else a later attempt's files are there now
    WHERE f.id = ANY(%(ids)s) AND m.location IS NOT NULL
"""


class Garbage:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def orphans(self, dataset: UUID, older_than_s: float) -> list[UUID]:
        """List fragments that were never in a version, that nothing in a version was made from,
        and that no run is working on."""
        rows = self.tx.execute(ORPHANS, {"dataset": dataset, "older": older_than_s}).fetchall()
        return [row["id"] for row in rows]

    def unreachable(self, dataset: UUID, keep: int, older_than_s: float) -> list[int]:
        """List versions that are neither among the newest nor in use."""
        given = {"dataset": dataset, "ordinal": None, "older": older_than_s}
        rows = self.tx.execute(IN_USE, given).fetchall()
        newest = self.tx.execute(IN_USE, given | {"older": 0}).fetchall()[:keep]
        spared = {row["ordinal"] for row in newest}
        return [r["ordinal"] for r in rows if r["why"] is None and r["ordinal"] not in spared]

    def in_use(self, dataset: Dataset, ordinal: int) -> str | None:
        given = {"dataset": dataset.id, "ordinal": ordinal, "older": 0}
        row = self.tx.execute(IN_USE, given).fetchone()
        return row["why"] if row else None

    def only_in(self, dataset: UUID, ordinals: Sequence[int]) -> list[UUID]:
        """List fragments that are only in these versions."""
        given = {"dataset": dataset, "ordinals": list(ordinals)}
        return [row["id"] for row in self.tx.execute(ONLY_IN, given).fetchall()]

    def known(self, dataset: UUID, without: Sequence[int]) -> set[str]:
        """List the ids that files and folders of the dataset may have as names."""
        given = {"dataset": dataset, "ordinals": list(without)}
        return {row["name"] for row in self.tx.execute(KNOWN, given).fetchall()}

    def made_at(self, fragments: Iterable[UUID]) -> list[str]:
        """List the run folders that contain the same files under another name."""
        rows = self.tx.execute(MADE_AT, {"ids": list(fragments)}).fetchall()
        return [row["location"] for row in rows]

    def mark(self, fragments: Iterable[UUID]) -> None:
        self.tx.execute(MARK, {"ids": list(fragments)})

    def is_marked(self, fragments: Sequence[UUID]) -> bool:
        """True if all of them are marked; False for an empty list."""
        row = self.tx.execute(MARKED, {"ids": list(fragments)}).fetchone()
        return bool(fragments) and row is not None and row["count"] == len(fragments)

    def purge(self, dataset: UUID, ordinals: Sequence[int]) -> None:
        self.tx.execute(PURGE, {"dataset": dataset, "ordinals": list(ordinals)})
