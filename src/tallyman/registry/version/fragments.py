"""Fragments: the files of versions, and the versions that contain them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.version.dataset import DataFile, Fragment
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

COLUMNS = """
    f.id, f.dataset_id, f.partition, f.materialization_id, f.files, f.digest, f.schema,
    f.manifest AS iceberg_manifest, d.org, coalesce(by.project, d.project) AS project, p.warehouse
"""
# Where the files are: in the warehouse of the pipeline whose run made them. Another one may produce
# the dataset now.
PLACED = """
    JOIN datasets d ON d.id = f.dataset_id
    LEFT JOIN runs by ON by.id = f.run_id
    LEFT JOIN pipelines p ON p.org = d.org AND p.project = coalesce(by.project, d.project)
"""
OPEN = """
    INSERT INTO fragments (id, dataset_id, partition, run_id)
    VALUES (%(id)s, %(dataset)s, %(partition)s, %(run)s)
    ON CONFLICT (id) DO NOTHING
"""
PREPARE = """
    UPDATE fragments
    SET staged_at = clock_timestamp(), materialization_id = %(materialization)s,
        row_count = %(rows)s, byte_count = %(bytes)s, files = %(files)s, digest = %(digest)s,
        schema = %(schema)s, manifest = %(manifest)s
    WHERE id = %(id)s AND purged_at IS NULL
      -- what was opened for something else, or is of another result, stays as it is
      AND dataset_id = %(dataset)s AND run_id IS NOT DISTINCT FROM %(run)s
      AND partition IS NOT DISTINCT FROM %(partition)s
      AND (staged_at IS NULL OR materialization_id IS NOT DISTINCT FROM %(materialization)s)
"""
AT = f"""
    SELECT {COLUMNS}, vf.since, m.invalidated_at IS NOT NULL AS invalidated
    FROM version_fragments vf JOIN fragments f ON f.id = vf.fragment_id {PLACED}
    LEFT JOIN materializations m ON m.id = f.materialization_id
    WHERE vf.dataset_id = %(dataset)s
      AND vf.since <= %(ordinal)s AND (vf.until IS NULL OR vf.until > %(ordinal)s)
      {{of_scope}}
    ORDER BY f.partition, vf.since, f.id
"""
IDS_AT = """
    SELECT f.id, f.partition
    FROM version_fragments vf JOIN fragments f ON f.id = vf.fragment_id
    WHERE vf.dataset_id = %(dataset)s
      AND vf.since <= %(ordinal)s AND (vf.until IS NULL OR vf.until > %(ordinal)s)
"""
ADDITIONS = f"""
    SELECT {COLUMNS}, vf.since
    FROM version_fragments vf JOIN fragments f ON f.id = vf.fragment_id {PLACED}
    JOIN materializations m ON m.id = f.materialization_id
    WHERE vf.dataset_id = %(dataset)s AND m.adds_to = ANY(%(results)s)
      AND vf.since <= %(ordinal)s AND (vf.until IS NULL OR vf.until > %(ordinal)s)
"""
GET = f"""
    SELECT {COLUMNS}, NULL::integer AS since FROM fragments f {PLACED}
    WHERE f.id = ANY(%(ids)s) AND f.staged_at IS NOT NULL AND f.purged_at IS NULL
    FOR SHARE OF f   -- cleanup waits, or has already marked it
"""
OF_RESULT = f"""
    SELECT {COLUMNS}, NULL::integer AS since FROM fragments f {PLACED}
    WHERE f.materialization_id = %(result)s AND f.dataset_id = %(dataset)s
      AND f.staged_at IS NOT NULL AND f.purged_at IS NULL
    FOR SHARE OF f
"""
MADE = """
    SELECT m.fragment_id, m.reused_id,
           m.adds_to IS NOT NULL OR r.params -> 'append' ? m.asset_name AS joins,
           jsonb_typeof(r.params -> 'options' -> 'plan') = 'object' AS whole
    FROM materializations m JOIN runs r ON r.id = m.run_id
    WHERE m.run_id = %(run)s AND m.asset_name = %(asset)s AND m.fragment_id IS NOT NULL
      AND m.status IN ('success', 'skipped')
"""
OF_PARTITION = " AND coalesce(m.partition, '') = %(partition)s"
JOIN = """
    INSERT INTO version_fragments (dataset_id, fragment_id, since)
    SELECT %(dataset)s, unnest(%(ids)s::uuid[]), %(ordinal)s
"""
LEAVE = """
    UPDATE version_fragments SET until = %(ordinal)s
    WHERE dataset_id = %(dataset)s AND fragment_id = ANY(%(ids)s) AND until IS NULL
"""


@dataclass(frozen=True, slots=True)
class MadeBy:
    """How a run made a fragment, and what the fragment replaces."""

    reused_id: UUID | None
    """The earlier result that the run reused."""
    joins: bool
    """True if its rows are added to those of its partition."""
    whole: bool
    """True if the run replaces the whole dataset, because it applies a plan."""


class Fragments:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def open(self, fragment: Fragment, run: UUID | None) -> None:
        """Register a fragment before its first file, so that every file has a known owner."""
        given = {
            "id": fragment.id,
            "dataset": fragment.dataset_id,
            "partition": fragment.partition,
            "run": run,
        }
        self.tx.execute(OPEN, given)

    def prepare(self, fragment: Fragment, run: UUID | None) -> bool:
        """Record that the files are complete and durable. May be repeated. False if cleanup has
        removed them, or the fragment was not opened for this run, dataset and partition."""
        listed = fragment.iceberg_manifest
        given = {
            "id": fragment.id,
            "dataset": fragment.dataset_id,
            "partition": fragment.partition,
            "run": run,
            "materialization": fragment.materialization_id,
            "rows": fragment.rows,
            "bytes": fragment.bytes,
            "files": Jsonb([asdict(file) for file in fragment.files]),
            "digest": fragment.digest,
            "schema": Jsonb(dict(fragment.schema)),
            "manifest": Jsonb(dict(listed)) if listed else None,
        }
        return bool(self.tx.execute(PREPARE, given).rowcount)

    def join(self, dataset: UUID, ids: Iterable[UUID], ordinal: int) -> None:
        self.tx.execute(JOIN, {"dataset": dataset, "ids": list(ids), "ordinal": ordinal})

    def leave(self, dataset: UUID, ids: Iterable[UUID], ordinal: int) -> None:
        self.tx.execute(LEAVE, {"dataset": dataset, "ids": list(ids), "ordinal": ordinal})

    # ---- queries ----------------------------------------------------------------------------

    def at(self, dataset: UUID, ordinal: int) -> dict[UUID, Fragment]:
        """Return the fragments of a version."""
        return self._at(dataset, ordinal, None, "")

    def in_scope(self, dataset: UUID, ordinal: int, partition: str | None) -> dict[UUID, Fragment]:
        """Return the fragments of one partition of a version, or of no partition."""
        of_scope = "AND f.partition = %(partition)s" if partition else "AND f.partition IS NULL"
        return self._at(dataset, ordinal, partition, of_scope)

    def _at(
        self, dataset: UUID, ordinal: int, partition: str | None, of_scope: str
    ) -> dict[UUID, Fragment]:
        given = {"dataset": dataset, "ordinal": ordinal, "partition": partition}
        rows = self.tx.execute(AT.format(of_scope=of_scope).encode(), given).fetchall()
        return {row["id"]: _fragment(row) for row in rows}

    def scopes_at(self, dataset: UUID, ordinal: int) -> dict[str | None, set[UUID]]:
        """Return the fragment ids of each partition in a version."""
        found: dict[str | None, set[UUID]] = {}
        given = {"dataset": dataset, "ordinal": ordinal}
        for row in self.tx.execute(IDS_AT, given).fetchall():
            found.setdefault(row["partition"], set()).add(row["id"])
        return found

    def made(self, run: UUID, asset: str, partition: str | None) -> dict[UUID, MadeBy]:
        """Return what a run made or reused of an asset, in one partition or all."""
        given = {"run": run, "asset": asset, "partition": partition}
        rows = self.tx.execute(MADE + (OF_PARTITION if partition else ""), given).fetchall()
        return {row.pop("fragment_id"): MadeBy(**row) for row in rows}

    def reused(
        self, results: Mapping[UUID, UUID], ordinals: Mapping[UUID, int]
    ) -> dict[UUID, Fragment]:
        """Return the fragments that replays added to these results (fragment -> result), as far as
        they are in the given versions: a result is reused together with them."""
        found: dict[UUID, Fragment] = {}
        for dataset in {fragment.dataset_id for fragment in self.get(results).values()}:
            given = {"dataset": dataset, "ordinal": ordinals.get(dataset, 0)}
            given |= {"results": list(results.values())}
            rows = self.tx.execute(ADDITIONS, given).fetchall()
            found |= {row["id"]: _fragment(row) for row in rows}
        return found

    def of_result(self, result: UUID, dataset: UUID) -> list[Fragment]:
        """List what a result put into a dataset: its own, or one that is published with it."""
        given = {"result": result, "dataset": dataset}
        return [_fragment(row) for row in self.tx.execute(OF_RESULT, given).fetchall()]

    def get(self, ids: Iterable[UUID]) -> dict[UUID, Fragment]:
        """Return those fragments that are prepared and not purged."""
        rows = self.tx.execute(GET, {"ids": list(ids)}).fetchall()
        return {row["id"]: _fragment(row) for row in rows}


def _fragment(row: Mapping[str, Any]) -> Fragment:
    found = dict(row)
    files = tuple(DataFile(**file) for file in found.pop("files"))
    owner = Owner(found.pop("org"), found.pop("project"))
    return Fragment(files=files, owner=owner, **found)
