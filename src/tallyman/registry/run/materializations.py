"""Materializations: one row per (asset, partition, run), from pending to its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.history.materialization import (
    Made,
    Materialization,
    TargetState,
    dependency_hash,
)
from tallyman.domain.history.run import Status
from tallyman.domain.pipeline.target import Target
from tallyman.domain.version.change_plan import Estimate
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

COLUMNS = """
    m.id, m.asset_name, m.partition, m.run_id, m.status, m.attempt, m.definition_hash,
    m.dependency_hash, m.content_digest, m.location, m.last_completed_operation, m.error_message,
    m.executor_node, m.reused_id, m.fragment_id, m.started_at, m.completed_at, m.duration_ms,
    m.metadata
"""
THIS = """
    m.run_id = %(run)s AND m.asset_name = %(asset)s
    AND coalesce(m.partition, '') = coalesce(%(partition)s, '')
"""
PLAN = """
    INSERT INTO materializations (run_id, org, project, asset_name, partition)
    SELECT id, org, project, %(asset)s, %(partition)s FROM runs WHERE id = %(run)s
    ON CONFLICT (run_id, asset_name, coalesce(partition, '')) DO NOTHING
"""
START = f"""
    UPDATE materializations m
    SET status = 'running', attempt = %(attempt)s, started_at = clock_timestamp(),
        completed_at = NULL, completion = NULL, duration_ms = NULL, error_message = NULL,
        executor_node = %(node)s, definition_hash = %(definition)s,
        last_completed_operation = NULL, metadata = '{{}}',
        updated_at = now()
    WHERE {THIS} AND m.status NOT IN ('success', 'skipped')
"""
STEP = f"""
    UPDATE materializations m SET last_completed_operation = %(step)s, updated_at = now()
    WHERE {THIS} AND m.status = 'running'
"""
SUCCEED = f"""
    UPDATE materializations m
    SET status = %(status)s, completed_at = clock_timestamp(), completion = nextval('completions'),
        duration_ms = %(duration_ms)s,
        upstream_assets = %(names)s, upstream_partitions = %(partitions)s, upstream_ids = %(ids)s,
        upstream_projects = %(projects)s, upstream_inputs = %(inputs)s,
        upstream_fragments = %(fragments)s,
        dependency_hash = %(dependency_hash)s, content_digest = %(digest)s,
        location = %(location)s, fragment_id = %(fragment)s, metadata = %(metadata)s,
        updated_at = now()
    WHERE {THIS}
    RETURNING m.id
"""
SKIP = f"""
    UPDATE materializations m
    SET status = 'skipped', reused_id = r.id, started_at = clock_timestamp(),
        completed_at = clock_timestamp(), completion = nextval('completions'), duration_ms = 0,
        executor_node = %(node)s,
        upstream_assets = r.upstream_assets, upstream_partitions = r.upstream_partitions,
        upstream_ids = r.upstream_ids, upstream_projects = r.upstream_projects,
        upstream_inputs = r.upstream_inputs, upstream_fragments = r.upstream_fragments,
        dependency_hash = r.dependency_hash,
        definition_hash = r.definition_hash, content_digest = r.content_digest,
        location = r.location, fragment_id = r.fragment_id,
        metadata = %(metadata)s
            || jsonb_build_object('registered', coalesce(r.metadata -> 'registered', '[]')),
        error_message = NULL, updated_at = now()
    FROM materializations r
    WHERE r.id = %(reused)s AND {THIS} AND r.status = 'success'
      -- a result of something else is not this one's
      AND (r.org, r.project, r.asset_name) = (m.org, m.project, m.asset_name)
      AND coalesce(r.partition, '') = coalesce(m.partition, '')
"""
END = f"""
    UPDATE materializations m
    SET status = %(status)s, completed_at = clock_timestamp(), completion = nextval('completions'),
        duration_ms = %(duration_ms)s,
        error_message = %(message)s, metadata = %(metadata)s, updated_at = now(),
        attempt = greatest(attempt, %(attempt)s)   -- it may have failed before it started
    WHERE {THIS}
"""
RESET = """
    UPDATE materializations SET status = 'pending', updated_at = now()
    WHERE run_id = %(run)s AND status NOT IN ('success', 'skipped', 'waiting_approval')
"""
DECIDE = f"""
    UPDATE materializations m
    SET status = %(status)s, error_message = %(message)s, metadata = m.metadata || %(metadata)s,
        completed_at = clock_timestamp(), completion = nextval('completions'), updated_at = now()
    WHERE {THIS} AND m.status = 'waiting_approval'
"""
FIND = f"SELECT {COLUMNS} FROM materializations m WHERE {THIS}"
STATES = """
    SELECT asset_name, partition, status, attempt FROM materializations WHERE run_id = %(run)s
    ORDER BY completion   -- as a run that is watched shows them
"""
OF_RUN = f"""
    SELECT {COLUMNS} FROM materializations m JOIN runs r ON r.id = m.run_id
    WHERE m.run_id = %(run)s
    ORDER BY array_position(  -- in the run's order: inputs before their readers
                 ARRAY(SELECT jsonb_array_elements_text(r.params -> 'assets')), m.asset_name::text),
             m.partition
"""
LAST_SUCCESS = f"""
    SELECT {COLUMNS} FROM materializations m
    WHERE m.org = %(org)s AND m.project = %(project)s AND m.asset_name = %(asset)s
      AND m.status = 'success' AND m.invalidated_at IS NULL
      AND coalesce(m.partition, '') = coalesce(%(partition)s, '')
      AND m.adds_to IS NULL   -- rows that a replay added are not the whole asset
    ORDER BY m.completion DESC LIMIT 1
"""
LATEST_OF_EACH = f"""
    SELECT DISTINCT ON (m.asset_name, coalesce(m.partition, '')) {COLUMNS}
    FROM materializations m
    WHERE m.org = %(org)s AND m.project = %(project)s
    ORDER BY m.asset_name, coalesce(m.partition, ''), m.seq DESC
"""
UNFINISHED = f"""
    SELECT {COLUMNS} FROM (
        SELECT DISTINCT ON (m.asset_name, coalesce(m.partition, '')) m.*
        FROM materializations m JOIN runs r ON r.id = m.run_id
        WHERE m.org = %(org)s AND m.project = %(project)s AND r.removed_at IS NULL
        ORDER BY m.asset_name, coalesce(m.partition, ''), m.seq DESC
    ) m JOIN runs r ON r.id = m.run_id
    WHERE m.status IN ('failed', 'pending', 'canceled') AND r.status <> 'running'
    ORDER BY r.seq, m.asset_name, m.partition
"""
INVALIDATE = """
    UPDATE materializations SET invalidated_at = clock_timestamp(), updated_at = now()
    WHERE org = %(org)s AND project = %(project)s AND asset_name = %(asset)s
      AND status = 'success' AND invalidated_at IS NULL
      AND (%(partition)s::text IS NULL OR partition = %(partition)s)
    RETURNING id
"""
INVALIDATED = """
    SELECT partition FROM materializations
    WHERE org = %(org)s AND project = %(project)s AND asset_name = %(asset)s
      AND status = 'success'
      AND (%(partition)s::text IS NULL OR partition = %(partition)s)
    GROUP BY partition HAVING bool_and(invalidated_at IS NOT NULL)
    ORDER BY partition
"""
DEFINITIONS_OF = """
    SELECT m.id, array_agg(DISTINCT same.definition_hash) AS hashes
    FROM materializations m JOIN materializations same
         ON same.org = m.org AND same.project = m.project AND same.asset_name = m.asset_name
        AND coalesce(same.partition, '') = coalesce(m.partition, '')
        AND same.content_digest = m.content_digest   -- same rows, other definition
    WHERE m.id = ANY(%(ids)s) AND same.status = 'success'
    GROUP BY m.id
"""
COSTS = """
    SELECT asset_name, count(*) AS results,
           percentile_disc(0.5) WITHIN GROUP (ORDER BY duration_ms) AS ms,
           percentile_disc(0.5) WITHIN GROUP (ORDER BY row_count) AS rows,
           percentile_disc(0.5) WITHIN GROUP (ORDER BY byte_count) AS bytes
    FROM (
        SELECT m.asset_name, m.duration_ms, f.row_count, f.byte_count,
               row_number() OVER (PARTITION BY m.asset_name ORDER BY m.completion DESC) AS newest
        FROM materializations m
        JOIN fragments f ON f.id = m.fragment_id
        WHERE m.org = %(org)s AND m.project = %(project)s
          AND m.status = 'success' AND m.adds_to IS NULL
    ) AS made
    WHERE newest <= 10
    GROUP BY 1
"""
KNOWN_DEFINITIONS = """
    SELECT DISTINCT asset_name, definition_hash FROM materializations
    WHERE org = %(org)s AND project = %(project)s AND asset_name = ANY(%(assets)s)
      AND status = 'success'
"""


class Materializations:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def plan(self, run: UUID, targets: Iterable[Target]) -> None:
        with self.tx.cursor() as cursor:
            cursor.executemany(PLAN, [_key(run, target) for target in targets])

    def reset(self, run: UUID) -> None:
        """Reset targets that did not succeed to pending; those that wait for a decision stay."""
        self.tx.execute(RESET, {"run": run})

    def start(self, run: UUID, target: Target, *, attempt: int, definition: str, node: str) -> None:
        given = {"attempt": attempt, "definition": definition, "node": node}
        self.tx.execute(START, _key(run, target) | given)

    def step(self, run: UUID, target: Target, step: str) -> None:
        self.tx.execute(STEP, _key(run, target) | {"step": step[:255]})

    def succeed(self, run: UUID, target: Target, made: Made, status: Status) -> UUID:
        """Record a success with its inputs, or a result that waits for approval. Return its id."""
        given = {
            "status": status.value,
            "duration_ms": made.metadata["duration_ms"],
            "names": [c.name for c in made.consumed],
            "partitions": [c.partition for c in made.consumed],
            "ids": [c.id for c in made.consumed],
            "projects": _unless_own([c.project for c in made.consumed]),
            "inputs": _unless_own([c.input for c in made.consumed]),
            "fragments": [c.fragment for c in made.consumed],
            "dependency_hash": dependency_hash(made.consumed),
            "digest": made.digest,
            "location": made.location,
            "fragment": made.fragment.id,
            "metadata": Jsonb(dict(made.metadata)),
        }
        row = self.tx.execute(SUCCEED, _key(run, target) | given).fetchone()
        assert row is not None
        return row["id"]

    def skip(
        self,
        run: UUID,
        target: Target,
        reused: UUID,
        *,
        node: str,
        metadata: Mapping[str, Any],
    ) -> bool:
        """Reuse a result of the same target, with what it registered; False if it is none."""
        given = {"reused": reused, "node": node, "metadata": Jsonb(dict(metadata))}
        return bool(self.tx.execute(SKIP, _key(run, target) | given).rowcount)

    def end(
        self, run: UUID, target: Target, status: Status, message: str, metadata: Mapping[str, Any]
    ) -> None:
        """Record that a target failed or was canceled."""
        given = {
            "status": status.value,
            "message": message,
            "duration_ms": metadata["duration_ms"],
            "attempt": metadata.get("attempt", 0),
            "metadata": Jsonb(dict(metadata)),
        }
        self.tx.execute(END, _key(run, target) | given)

    def decide(
        self, run: UUID, target: Target, status: Status, message: str | None, metadata: object
    ) -> bool:
        """Record success or failure after an approval. False if it was already decided."""
        given = {"status": status.value, "message": message, "metadata": Jsonb(metadata)}
        return bool(self.tx.execute(DECIDE, _key(run, target) | given).rowcount)

    def invalidate(self, owner: Owner, asset: str, partition: str | None) -> int:
        """Declare results invalid and return their number; 0 if it is repeated."""
        given = owner.key | {"asset": asset, "partition": partition}
        return self.tx.execute(INVALIDATE, given).rowcount

    # ---- queries ----------------------------------------------------------------------------

    def find(self, run: UUID, target: Target) -> Materialization | None:
        row = self.tx.execute(FIND, _key(run, target)).fetchone()
        return materialization(row) if row else None

    def states(self, run: UUID) -> list[TargetState]:
        """List the states of a run's targets, without what is known about their results."""
        return [
            TargetState(
                Target(row["asset_name"], row["partition"]), Status(row["status"]), row["attempt"]
            )
            for row in self.tx.execute(STATES, {"run": run}).fetchall()
        ]

    def of_run(self, run: UUID) -> list[Materialization]:
        return [materialization(r) for r in self.tx.execute(OF_RUN, {"run": run}).fetchall()]

    def last_success(self, owner: Owner, target: Target) -> Materialization | None:
        """Return the result that a run may reuse, published or not."""
        given = owner.key | {"asset": target.asset, "partition": target.partition}
        row = self.tx.execute(LAST_SUCCESS, given).fetchone()
        return materialization(row) if row else None

    def invalidated(
        self, owner: Owner, asset: str, partition: str | None = None
    ) -> list[str | None]:
        """List partitions that were made but have no valid result; None stands for an unpartitioned
        asset."""
        given = owner.key | {"asset": asset, "partition": partition}
        rows = self.tx.execute(INVALIDATED, given).fetchall()
        return [row["partition"] for row in rows]

    def known_definitions(self, owner: Owner, assets: list[str]) -> set[tuple[str, str]]:
        """Return the (asset, definition) pairs that have succeeded and need no check."""
        rows = self.tx.execute(KNOWN_DEFINITIONS, owner.key | {"assets": assets}).fetchall()
        return {(row["asset_name"], row["definition_hash"]) for row in rows}

    def definitions_of(self, ids: Iterable[UUID]) -> list[frozenset[str]]:
        """Return, for each result, the definitions that made the same rows."""
        rows = self.tx.execute(DEFINITIONS_OF, {"ids": list(ids)}).fetchall()
        return [frozenset(row["hashes"]) for row in rows]

    def costs(self, owner: Owner) -> dict[str, Estimate]:
        """Return, for each asset, the medians of its ten newest results."""
        return {
            row["asset_name"]: Estimate(
                results=row["results"],
                seconds=(row["ms"] or 0) / 1000,
                rows=row["rows"] or 0,
                bytes=row["bytes"] or 0,
            )
            for row in self.tx.execute(COSTS, owner.key).fetchall()
        }

    def unfinished(self, owner: Owner) -> list[Materialization]:
        """List the newest row of each target where it is not a result."""
        rows = self.tx.execute(UNFINISHED, owner.key).fetchall()
        return [materialization(row) for row in rows]

    def latest_of_each(self, owner: Owner) -> list[Materialization]:
        """Return the newest row of every asset and partition, in any state."""
        rows = self.tx.execute(LATEST_OF_EACH, owner.key).fetchall()
        return [materialization(row) for row in rows]


def _unless_own(given: list[str | None]) -> list[str | None] | None:
    """Return None if no input is of another pipeline: most results need no such list."""
    return given if any(given) else None


def _key(run: UUID, target: Target) -> dict[str, object]:
    return {"run": run, "asset": target.asset, "partition": target.partition}


def materialization(row: Mapping[str, Any]) -> Materialization:
    found = dict(row)
    target = Target(found.pop("asset_name"), found.pop("partition"))
    status = Status(found.pop("status"))
    return Materialization(target=target, status=status, **found)
