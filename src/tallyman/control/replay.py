"""Replaying a plan on its pinned inputs: how a run that kept only digests answers for its keys."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from tallyman.domain.fate import Evidence
from tallyman.domain.frame import Frame
from tallyman.domain.ledger import Discrepancy
from tallyman.domain.pipeline import Asset
from tallyman.domain.run import RunIdentity
from tallyman.domain.threshold import Thresholds
from tallyman.engine.asset_run import AssetRun
from tallyman.engine.proof import compare_keys
from tallyman.engine.source import Input

ANYTHING = Thresholds(absolute=0, percentage=1.0, window=0)


def compare_by_replay(
    asset: Asset, plan: Frame, inputs: Mapping[str, Input], ledger: dict[str, Any], folder: Path
) -> Discrepancy:
    """The keys of a replay, accepted only where its groups have the digests the run stored."""
    with tempfile.TemporaryDirectory(prefix="tallyman-replay-") as aside:
        place, staging = Path(aside) / asset.name, Path(aside) / "staging"
        place.mkdir()
        staging.mkdir()
        identity = RunIdentity.of("replay", now=datetime.now(UTC))
        both = {}
        for evidence in (Evidence.KEYS, Evidence.DIGEST):
            where = place / evidence.value
            where.mkdir()
            (staging / evidence.value).mkdir()
            work = AssetRun(
                asset=asset,
                plan=plan,
                run=identity,
                inputs=inputs,
                thresholds=ANYTHING,
                evidence=evidence,
                folder=where,
                staging=staging / evidence.value,
            )
            work.execute()
            both[evidence] = where
        merged = copy.deepcopy(ledger)
        broken = 0
        for partition in merged["output_accounting"]["partitions"]:
            if partition["partition_type"] == "AGGREGATED":
                location = partition["adjoint_location"]
                broken += _differing(inputs, folder / location, both[Evidence.DIGEST] / location)
                partition["adjoint_location"] = str(both[Evidence.KEYS] / location)
        accounted = [inputs[name] for name in work.accounted]
        found = compare_keys(accounted, merged, folder)
    return replace(found, missing=found.missing + broken)


def _differing(inputs: Mapping[str, Input], stored: Path, replayed: Path) -> int:
    """Records in groups whose count or digest is not what the run stored."""
    spark = next(iter(inputs.values())).spark
    names = ("record_count", "key_digest_high", "key_digest_low")
    sides = []
    for place in (stored, replayed):
        files = [str(p) for p in sorted(place.rglob("*.parquet"))]
        if not files:
            return 0
        rows = spark.read.parquet(*files)
        sides.append(rows.select(F.to_json("group_key").alias("g"), *names))
    left = sides[0].exceptAll(sides[1]).unionAll(sides[1].exceptAll(sides[0]))
    row = left.agg(F.sum("record_count").alias("n")).first()
    return int(row["n"] or 0) if row else 0
