"""Additive digests of keys: order-free, mergeable, computed inside ordinary aggregations."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from tallyman.domain.account.ledger import KeyDigest

LANES = ("high", "low", "high_2", "low_2")
COUNT, *_ = NAMES = ("_tm_count", *(f"_tm_{lane}" for lane in LANES))
STORED = ("record_count", *(f"key_digest_{lane}" for lane in LANES))
"""The names in evidence of groups."""
HALF = 0xFFFFFFFF


def lanes(key: str, where: str | None = None) -> list[str]:
    """Write a count and four sums: the halves of two 64-bit hashes of the key, with two seeds. Sums
    of 32-bit halves cannot overflow before two billion records per group. With `where`, only rows
    for which it holds count.
    """
    only = f" FILTER (WHERE {where})" if where else ""
    hashes = (f"xxhash64({key})", f"xxhash64(1, {key})")
    halves = [half for h in hashes for half in (f"shiftright({h}, 32)", f"{h} & {HALF}L")]
    sums = ["count(1)", *(f"sum({half})" for half in halves)]
    return [f"{one}{only} AS {name}" for one, name in zip(sums, NAMES, strict=True)]


def of_row(row: Any) -> KeyDigest:
    """Make a digest of sums by name."""
    return KeyDigest(*(row[lane] or 0 for lane in NAMES))


def of_keys(rows: DataFrame, key: str) -> KeyDigest:
    """Digest the keys of rows, given in SQL, in one pass."""
    return of_row(rows.selectExpr(*lanes(key)).first())
