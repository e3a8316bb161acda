"""Additive digests of keys: order-free, mergeable, computed inside ordinary aggregations."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tallyman.domain.account.ledger import KeyDigest

COUNT, HIGH, LOW = NAMES = ("_tm_count", "_tm_high", "_tm_low")


def lanes(key: Column) -> list[Column]:
    """Build a count and two sums over the 64-bit hash of the key. Sums of 32-bit halves cannot
    overflow before two billion records per group.
    """
    hashed = F.xxhash64(key)
    return [
        F.count(F.lit(1)).alias(COUNT),
        F.sum(F.shiftright(hashed, 32)).alias(HIGH),
        F.sum(hashed.bitwiseAND(F.lit(0xFFFFFFFF))).alias(LOW),
    ]


def lanes_where(key: Column, holds: Column, name: str) -> list[Column]:
    """Build the same over the rows for which a condition holds, with names of their own."""
    hashed = F.when(holds, F.xxhash64(key))
    return [
        F.count_if(holds).alias(name + COUNT),
        F.sum(F.shiftright(hashed, 32)).alias(name + HIGH),
        F.sum(hashed.bitwiseAND(F.lit(0xFFFFFFFF))).alias(name + LOW),
    ]


def of_row(row: Any, name: str = "") -> KeyDigest:
    return KeyDigest(*(row[name + lane] or 0 for lane in NAMES))


def of_keys(keys: DataFrame) -> KeyDigest:
    """Digest a one-column DataFrame of keys in one pass."""
    return of_row(keys.agg(*lanes(F.col(keys.columns[0]))).first())
