"""Reads: the inputs of a result, the versions that contain a fragment, and the readers of a
result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from tallyman.domain.account.input_version import InputVersion
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction
from tallyman.registry.run.materializations import COLUMNS, materialization

INPUTS = """
    SELECT coalesce(u.input, u.name) AS name, u.partition, u.id, u.fragment AS fragment_id,
           f.dataset_id
    FROM materializations m
    CROSS JOIN unnest(m.upstream_assets, m.upstream_partitions, m.upstream_ids, m.upstream_inputs,
                      m.upstream_fragments)
        AS u (name, partition, id, input, fragment)
    LEFT JOIN fragments f ON f.id = u.fragment
    WHERE m.id = %(id)s
    ORDER BY 1, u.partition
"""
# By the registry alone: a run reads the pinned version, and what it made or reused itself in place
# of the partitions of that version, or of all of it if it applies a plan. What is appended, or
# added by a replay, is read in addition.
EXPECTED = """
    WITH made AS (
        SELECT m.fragment_id, m.reused_id, f.partition,
               m.adds_to IS NOT NULL OR r.params -> 'append' ? m.asset_name AS joins,
               jsonb_typeof(r.params -> 'options' -> 'plan') = 'object' AS whole
        FROM materializations m
        JOIN runs r ON r.id = m.run_id
        JOIN fragments f ON f.id = m.fragment_id AND f.dataset_id = %(dataset)s
        WHERE m.run_id = %(run)s AND m.status IN ('success', 'skipped') {of_partition}
    ), there AS (
        SELECT f.id, f.partition, a.adds_to
        FROM version_fragments vf
        JOIN fragments f ON f.id = vf.fragment_id
        LEFT JOIN materializations a ON a.id = f.materialization_id
        WHERE vf.dataset_id = %(dataset)s
          AND vf.since <= %(ordinal)s AND (vf.until IS NULL OR vf.until > %(ordinal)s)
          {of_partition}
    ), read AS (
        SELECT id FROM there
        WHERE NOT EXISTS (
            SELECT FROM made
            WHERE NOT made.joins
              AND (made.whole OR made.partition IS NOT DISTINCT FROM there.partition)
              AND (there.adds_to IS NULL OR made.reused_id IS DISTINCT FROM there.adds_to))
        UNION
        SELECT fragment_id FROM made
    )
    SELECT f.id, f.row_count AS rows, f.id NOT IN (SELECT id FROM there) AS own,
           ARRAY(SELECT file ->> 'path' FROM jsonb_array_elements(f.files) AS file) AS files
    FROM read JOIN fragments f USING (id)
    ORDER BY f.partition, f.id
"""
IN_PARTITION = "AND f.partition = %(partition)s"
VERSIONS = """
    SELECT since, until FROM version_fragments
    WHERE dataset_id = %(dataset)s AND fragment_id = %(fragment)s ORDER BY since
"""
PINNED = """
    SELECT DISTINCT (r.pins ->> %(dataset)s)::integer AS ordinal
    FROM materializations m JOIN runs r ON r.id = m.run_id
    WHERE m.id = ANY(%(results)s) AND r.pins ? %(dataset)s
    ORDER BY 1
"""
RECORDS_READ = """
    SELECT m.metadata -> 'inputs' AS inputs
    FROM version_fragments vf
    JOIN fragments f ON f.id = vf.fragment_id
    JOIN materializations m ON m.id = f.materialization_id
    WHERE vf.dataset_id = %(dataset)s
      AND vf.since <= %(ordinal)s AND (vf.until IS NULL OR vf.until > %(ordinal)s)
      {of_partition}
    ORDER BY m.completion
"""
OWNER = "SELECT org, project FROM materializations WHERE id = %(id)s"
GET = f"SELECT {COLUMNS} FROM materializations m WHERE m.id = %(id)s"
# Only results in a current version: replaced results are not an answer.
CURRENT = """
    JOIN fragments f ON f.materialization_id = m.id
    JOIN datasets d ON d.id = f.dataset_id AND d.org = %(org)s
    JOIN version_fragments vf ON vf.dataset_id = d.id AND vf.fragment_id = f.id
         AND vf.since <= d.ordinal AND (vf.until IS NULL OR vf.until > d.ordinal)
"""
OF_SOURCE = f"""
    SELECT DISTINCT ON (m.asset_name, m.partition, m.completion)   -- one may be in several datasets
        {COLUMNS}
    FROM materializations m {CURRENT}
    WHERE m.status = 'success' AND m.upstream_assets @> ARRAY[%(name)s::text]
      AND m.project = %(project)s
      -- an asset of another pipeline may have the name
      AND EXISTS (SELECT FROM unnest(m.upstream_assets, m.upstream_ids, m.upstream_projects)
                      AS u (name, id, project)
                  WHERE u.name = %(name)s AND u.id IS NULL AND u.project IS NULL)
    ORDER BY m.asset_name, m.partition, m.completion
"""
OF_RESULT = f"""
    SELECT DISTINCT ON (m.asset_name, m.partition, m.completion) {COLUMNS}
    FROM materializations m {CURRENT}
    WHERE m.status = 'success' AND m.upstream_ids @> ARRAY[%(id)s::uuid]
    ORDER BY m.asset_name, m.partition, m.completion
"""
OF_RESULT_IN_RUN = f"""
    SELECT {COLUMNS} FROM materializations m
    WHERE m.run_id = %(run)s AND m.upstream_ids @> ARRAY[%(id)s::uuid]
    ORDER BY m.asset_name, m.partition
"""


@dataclass(frozen=True, slots=True)
class Read:
    """One source, or one fragment of a dataset, that a result was made from, by the name that the
    reader gives the input."""

    name: str
    partition: str | None
    id: UUID | None
    fragment_id: UUID | None
    """None for a source."""
    dataset_id: UUID | None


class Reads:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def inputs(self, result: UUID) -> list[Read]:
        return [Read(**row) for row in self.tx.execute(INPUTS, {"id": result}).fetchall()]

    def expected(
        self, name: str, dataset: UUID, partition: str | None, ordinal: int, run: UUID | None
    ) -> InputVersion:
        """Return what a run has to find of a dataset that it pinned at this version."""
        given = {"dataset": dataset, "partition": partition, "ordinal": ordinal, "run": run}
        sql = EXPECTED.format(of_partition=IN_PARTITION if partition else "")
        rows = self.tx.execute(sql.encode(), given).fetchall()
        return InputVersion(
            input=name,
            dataset=dataset,
            version=None if any(row["own"] for row in rows) else ordinal,
            fragments=tuple(row["id"] for row in rows),
            files=tuple(path for row in rows for path in row["files"]),
            rows=sum(row["rows"] for row in rows),
        )

    def records_read(
        self, dataset: UUID, ordinal: int, partition: str | None
    ) -> dict[tuple[str, str | None], int]:
        """Return the records of each input, by name and partition, that a version was made from;
        the newest result counts."""
        given = {"dataset": dataset, "ordinal": ordinal, "partition": partition}
        of_partition = IN_PARTITION if partition else "AND f.partition IS NULL"
        sql = RECORDS_READ.format(of_partition=of_partition)
        rows = self.tx.execute(sql.encode(), given).fetchall()
        return {
            (one["name"], one["partition"]): one["rows"]
            for row in rows
            for one in row["inputs"] or ()
            if "rows" in one
        }

    def result(self, wanted: UUID) -> Materialization | None:
        row = self.tx.execute(GET, {"id": wanted}).fetchone()
        return materialization(row) if row else None

    def owner_of(self, result: UUID) -> Owner | None:
        """Return the pipeline that made a result."""
        row = self.tx.execute(OWNER, {"id": result}).fetchone()
        return Owner(row["org"], row["project"]) if row else None

    def version_of(self, dataset: UUID, fragment: UUID, pinned: int) -> int | None:
        """Return the version in which a run saw a fragment: the pinned one, or the first one after
        it."""
        given = {"dataset": dataset, "fragment": fragment}
        spans = self.tx.execute(VERSIONS, given).fetchall()
        for span in spans:
            if span["since"] <= pinned and (span["until"] is None or span["until"] > pinned):
                return pinned
        later = [span["since"] for span in spans if span["since"] > pinned]
        return min(later) if later else None

    def pinned(self, results: Sequence[UUID], dataset: UUID) -> list[int]:
        """List the versions of a dataset that these results were made from."""
        given = {"results": list(results), "dataset": str(dataset)}
        return [row["ordinal"] for row in self.tx.execute(PINNED, given).fetchall()]

    def of_source(self, name: str, owner: Owner) -> list[Materialization]:
        """List the results in current versions that read the source."""
        rows = self.tx.execute(OF_SOURCE, owner.key | {"name": name}).fetchall()
        return [materialization(row) for row in rows]

    def of_result(self, result: UUID, owner: Owner, run: UUID | None) -> list[Materialization]:
        """List the results made from exactly this one: in current versions, also of other
        pipelines, or in a run."""
        sql = OF_RESULT if run is None else OF_RESULT_IN_RUN
        given = owner.key | {"id": result, "run": run}
        return [materialization(row) for row in self.tx.execute(sql, given).fetchall()]
