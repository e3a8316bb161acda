"""Recompute the keys of a run that stored only digests: evaluate its plan again on its pinned
inputs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tallyman.control.verify.reopen import Again
from tallyman.domain.account.fate import Evidence, Fate
from tallyman.domain.account.ledger import Discrepancy, Partition
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.history.run import RunIdentity
from tallyman.domain.pipeline.target import Target
from tallyman.domain.pipeline.threshold import ANYTHING
from tallyman.engine.asset.asset_run import AssetRun
from tallyman.engine.asset.work import Folders, Work
from tallyman.engine.evidence.proof import compare_keys, compare_units
from tallyman.engine.source.source import Input
from tallyman.engine.spark import digest


@dataclass(frozen=True, slots=True)
class RecomputedKeys:
    """Recomputed keys, and the number of records that do not match the stored digests."""

    folder: Path
    accounted: list[Input]
    broken: int


@contextmanager
def recomputed(again: Again) -> Iterator[RecomputedKeys]:
    """Evaluate the plan with all keys, with the run's clock, in a folder that exists inside the
    block."""
    asset, inputs, folder = again.asset, again.inputs, again.place
    with tempfile.TemporaryDirectory(prefix="tallyman-keys-") as temporary:
        place, scratch = Path(temporary) / asset.name, Path(temporary) / "staging"
        place.mkdir()
        scratch.mkdir()
        work = Work(
            target=Target(asset.name),
            asset=asset,
            plan=again.plan,
            run=RunIdentity.of("replay", now=again.clock),
            thresholds=ANYTHING,
            evidence=Evidence.KEYS,
            folders=Folders(place, scratch, folder),
            redaction=next(iter(inputs.values())).redaction,
        )
        run = AssetRun(work, inputs)
        run.execute()
        broken = sum(
            _differing(inputs, folder / part.location, place / part.location)
            for part in again.ledger.evidence_of(Fate.AGGREGATED)
        )
        yield RecomputedKeys(place, run.doors.accounted_inputs, broken)


def compare_by_digest(again: Again) -> Discrepancy:
    """Compare recomputed keys, which count only where their groups match the stored digests."""
    with recomputed(again) as replay:
        merged = _replayed(again.ledger, replay.folder)
        found = compare_keys(replay.accounted, merged, again.place)
        found += compare_units(replay.accounted[0].spark, merged, again.place)
    return replace(found, missing=found.missing + replay.broken)


def _replayed(ledger: StoredLedger, folder: Path) -> StoredLedger:
    """Take the keys of groups, at every level, from the recomputed files: the run stored only their
    digests.
    """

    def parts(stored: Sequence[Partition]) -> tuple[Partition, ...]:
        return tuple(
            replace(part, location=str(folder / part.location))
            if part.fate is Fate.AGGREGATED
            else part
            for part in stored
        )

    subs = (replace(sub, partitions=parts(sub.partitions)) for sub in ledger.sub_ledgers)
    return replace(ledger, partitions=parts(ledger.partitions), sub_ledgers=tuple(subs))


def _differing(inputs: Mapping[str, Input], stored: Path, keys: Path) -> int:
    """Count records in groups whose count or digest differs from the stored one."""
    spark = next(iter(inputs.values())).spark
    sides: list[DataFrame] = []
    for place in (stored, keys):
        files = [str(p) for p in sorted(place.rglob("*.parquet"))]
        if not files:
            return 0
        rows = spark.read.parquet(*files)
        group = F.to_json("group_key").alias("g")
        if "source_key" in rows.columns:
            found = rows.groupBy(group).agg(*map(F.expr, digest.lanes("source_key")))
            measured = zip(digest.NAMES, digest.STORED, strict=True)
            rows = found.select("g", *(F.col(m).alias(n) for m, n in measured))
        else:
            rows = rows.select(group, *digest.STORED)
        sides.append(rows)
    stored_only, now_only = sides[0].exceptAll(sides[1]), sides[1].exceptAll(sides[0])
    both = stored_only.select(F.col("record_count").alias("then"), F.lit(0).alias("now")).unionAll(
        now_only.select(F.lit(0), "record_count")
    )
    row = both.agg(F.sum("then").alias("then"), F.sum("now").alias("now")).first()
    return max(int(row["then"] or 0), int(row["now"] or 0)) if row else 0
