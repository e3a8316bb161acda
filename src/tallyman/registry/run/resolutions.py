"""Resolutions: how rejections were resolved after their run. Those of a replay count once it is
published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

from tallyman.domain.pipeline.target import Target
from tallyman.registry.database import Transaction

BATCH = 10_000

ADD = """
    INSERT INTO resolutions (run_id, asset_name, partition, source_key, outcome, by_run, actor,
                             reason, settled_at)
    SELECT %(run)s, %(asset)s, %(partition)s, given.source_key, given.outcome, %(by_run)s,
           %(actor)s, %(reason)s, CASE WHEN %(by_run)s::uuid IS NULL THEN clock_timestamp() END
    FROM unnest(%(keys)s::text[], %(outcomes)s::text[]) AS given (source_key, outcome)
    ON CONFLICT (run_id, asset_name, coalesce(partition, ''), md5(source_key),
                 coalesce(by_run, run_id)) DO NOTHING
"""
CARRY_DISCARDS = """
    INSERT INTO resolutions (run_id, asset_name, partition, source_key, outcome, actor, reason,
                             settled_at)
    SELECT %(to)s, asset_name, partition, source_key, outcome, actor, reason, settled_at
    FROM resolutions
    WHERE run_id = %(run)s AND asset_name = %(asset)s AND outcome = 'discarded'
      AND coalesce(partition, '') = coalesce(%(partition)s, '')
    ON CONFLICT DO NOTHING
"""
# The datasets are locked: two replays of one rejection get here one after the other.
CLASHES = """
    SELECT count(*) AS count, min(r.name) AS run, min(other.actor) AS actor
    FROM resolutions mine JOIN resolutions other
         ON other.run_id = mine.run_id AND other.asset_name = mine.asset_name
        AND coalesce(other.partition, '') = coalesce(mine.partition, '')
        AND md5(other.source_key) = md5(mine.source_key)
        AND other.id <> mine.id AND other.settled_at IS NOT NULL
        AND NOT coalesce(other.by_run = ANY(%(void)s::uuid[]), false)
    LEFT JOIN runs r ON r.id = other.by_run
    WHERE mine.by_run = %(by_run)s AND mine.settled_at IS NULL
"""
RESOLVE = """
    UPDATE resolutions SET settled_at = clock_timestamp()
    WHERE by_run = %(by_run)s AND settled_at IS NULL
"""
OF_TARGET = """
    SELECT DISTINCT ON (x.source_key) x.source_key, x.outcome, r.name AS by_run
    FROM resolutions x LEFT JOIN runs r ON r.id = x.by_run
    WHERE x.run_id = %(run)s AND x.asset_name = %(asset)s AND x.settled_at IS NOT NULL
      AND coalesce(x.partition, '') = coalesce(%(partition)s, '')
      AND NOT coalesce(x.by_run = ANY(%(void)s::uuid[]), false)
    ORDER BY x.source_key, x.outcome = 'discarded'
"""
RESOLVED = """
    SELECT EXISTS (SELECT FROM resolutions WHERE by_run = %(run)s AND settled_at IS NOT NULL) AS is
"""


class Resolutions:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(
        self,
        run: UUID,
        target: Target,
        found: Iterable[tuple[str, str]],
        *,
        actor: str,
        by_run: UUID | None = None,
        reason: str | None = None,
    ) -> int:
        """Add outcomes by key. Those of a replay count once it is published; a discard counts at
        once."""
        given = _key(run, target) | {"by_run": by_run, "actor": actor[:255], "reason": reason}
        count = 0
        every = iter(found)
        while batch := list(islice(every, BATCH)):
            keys, outcomes = zip(*batch, strict=True)
            listed = {"keys": list(keys), "outcomes": list(outcomes)}
            count += self.tx.execute(ADD, given | listed).rowcount
        return count

    def carry_discards(self, run: UUID, target: Target, to: UUID) -> None:
        """Copy discards to the new run, where the same records are rejections again."""
        self.tx.execute(CARRY_DISCARDS, _key(run, target) | {"to": to})

    def clashes(self, by_run: UUID, void: Sequence[UUID]) -> dict[str, Any]:
        """Count the rejections that somebody else resolved meanwhile, and name the run and
        actor."""
        row = self.tx.execute(CLASHES, {"by_run": by_run, "void": list(void)}).fetchone()
        assert row is not None
        return row

    def resolve(self, by_run: UUID) -> None:
        """Make the resolutions of a replay take effect, in the transaction that publishes it."""
        self.tx.execute(RESOLVE, {"by_run": by_run})

    # ---- queries ----------------------------------------------------------------------------

    def of_target(
        self, run: UUID, target: Target, void: Sequence[UUID]
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield key, outcome and replay in batches, without replays whose rows were rolled back."""
        with self.tx.cursor(name="resolutions_of_target") as cursor:
            cursor.execute(OF_TARGET, _key(run, target) | {"void": list(void)})
            while rows := cursor.fetchmany(BATCH):
                yield rows

    def resolved(self, run: UUID) -> bool:
        """True if the run is a replay that took effect."""
        row = self.tx.execute(RESOLVED, {"run": run}).fetchone()
        return bool(row and row["is"])


def _key(run: UUID, target: Target) -> dict[str, Any]:
    return {"run": run, "asset": target.asset, "partition": target.partition}
