"""Ids of rows: derived from the run and the key."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import xxhash
from pyspark.sql import SparkSession

from tallyman.domain.history.run import RunIdentity
from tallyman.engine.working.changes import Member
from tallyman.engine.working.row_ids import RowIds

STARTED = datetime(2026, 2, 1, tzinfo=UTC)
HIGH = 0x019C167FCC007003
"""The milliseconds of that time, the version of the UUID, and the ordinal of the step."""
KEYS = ("a", "", "o'k\\", "é" * 40, "JE0000000001")
MEMBER = cast("Member", SimpleNamespace(ordinal=3, born=30))


def of_xxhash(scope: str, key: str) -> int:
    seed = xxhash.xxh64_intdigest(scope.encode(), seed=42)
    return xxhash.xxh64_intdigest(key.encode(), seed=seed) & (1 << 62) - 1


def test_an_id_follows_from_the_key(spark: SparkSession) -> None:
    ids = RowIds(RunIdentity("r", "0b0e7d6e", STARTED), "it's", "2026-01-01")
    rows = spark.createDataFrame([(key,) for key in KEYS], "k string")
    found = rows.selectExpr("k", f"{ids.low(MEMBER, 'k')} AS low", f"{ids.of(MEMBER, 'k')} AS id")
    for row in found.collect():
        expected = of_xxhash("0b0e7d6e\x1fit's\x1f2026-01-01\x1f30", row["k"])
        assert row["low"] == expected
        assert row["id"] == str(UUID(int=HIGH << 64 | 2 << 62 | expected))
