"""Compute the keys of a run that kept only digests: its plan again, on its pinned inputs."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tallyman.domain.account.fate import Evidence
from tallyman.domain.account.ledger import Discrepancy
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.pipeline import Asset
from tallyman.domain.definition.threshold import Thresholds
from tallyman.domain.history.run import RunIdentity
from tallyman.engine.asset_run import AssetRun
from tallyman.engine.evidence.proof import compare_keys
from tallyman.engine.source.source import Input
from tallyman.engine.spark import digest

ANYTHING = Thresholds(absolute=0, percentage=1.0, window=0)
NAMES = ("record_count", "key_digest_high", "key_digest_low")


@dataclass(frozen=True, slots=True)
class RecomputedKeys:
    """The keys the plan gives now, and how many records do not match the digests stored then."""

    folder: Path
    accounted: list[Input]
    broken: int


@contextmanager
def recomputed(
    asset: Asset,
    plan: Frame,
    moment: datetime,
    inputs: Mapping[str, Input],
    ledger: dict[str, Any],
    folder: Path,
) -> Iterator[RecomputedKeys]:
    """Run the plan with all keys, at the time of the run, in a folder that goes with the block."""
    with tempfile.TemporaryDirectory(prefix="tallyman-keys-") as temporary:
        place, scratch = Path(temporary) / asset.name, Path(temporary) / "staging"
        place.mkdir()
        scratch.mkdir()
        work = AssetRun(
            asset=asset,
            plan=plan,
            run=RunIdentity.of("replay", now=moment),
            inputs=inputs,
            thresholds=ANYTHING,
            evidence=Evidence.KEYS,
            folder=place,
            scratch=scratch,
            project=folder,
            redaction=next(iter(inputs.values())).redaction,
        )
        work.execute()
        broken = sum(
            _differing(inputs, folder / location, place / location) for location in _grouped(ledger)
        )
        yield RecomputedKeys(place, [work.inputs[name] for name in work.accounted], broken)


def compare_by_digest(
    asset: Asset,
    plan: Frame,
    moment: datetime,
    inputs: Mapping[str, Input],
    ledger: dict[str, Any],
    folder: Path,
) -> Discrepancy:
    """Compare recomputed keys; count those in groups whose digest is not the stored one."""
    with recomputed(asset, plan, moment, inputs, ledger, folder) as keys:
        merged = copy.deepcopy(ledger)
        for partition in merged["output_accounting"]["partitions"]:
            if partition["partition_type"] == "AGGREGATED":
                location = partition["adjoint_location"]
                partition["adjoint_location"] = str(keys.folder / location)
        found = compare_keys(keys.accounted, merged, folder)
    return replace(found, missing=found.missing + keys.broken)


def _grouped(ledger: dict[str, Any]) -> list[str]:
    listed = [*ledger["output_accounting"]["partitions"]]
    listed += [one for sub in ledger["sub_ledgers"] for one in sub["partitions"]]
    return [p["adjoint_location"] for p in listed if p["partition_type"] == "AGGREGATED"]


def _differing(inputs: Mapping[str, Input], stored: Path, keys: Path) -> int:
    """Records in groups whose count or digest is not what the run stored."""
    spark = next(iter(inputs.values())).spark
    sides: list[DataFrame] = []
    for place in (stored, keys):
        files = [str(p) for p in sorted(place.rglob("*.parquet"))]
        if not files:
            return 0
        rows = spark.read.parquet(*files)
        group = F.to_json("group_key").alias("g")
        if "source_key" in rows.columns:
            found = rows.groupBy(group).agg(*digest.lanes(F.col("source_key")))
            measured = (digest.COUNT, digest.HIGH, digest.LOW)
            rows = found.select(
                "g", *(F.col(m).alias(n) for m, n in zip(measured, NAMES, strict=True))
            )
        else:
            rows = rows.select(group, *NAMES)
        sides.append(rows)
    stored_only, now_only = sides[0].exceptAll(sides[1]), sides[1].exceptAll(sides[0])
    both = stored_only.select(F.col("record_count").alias("then"), F.lit(0).alias("now")).unionAll(
        now_only.select(F.lit(0), "record_count")
    )
    row = both.agg(F.sum("then").alias("then"), F.sum("now").alias("now")).first()
    return max(int(row["then"] or 0), int(row["now"] or 0)) if row else 0
