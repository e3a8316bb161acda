"""Additive digests of keys: order-free, mergeable, computed inside ordinary aggregations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tallyman.domain.account.ledger import KeyDigest

LANES = ("high", "low", "high_2", "low_2")
COUNT, *_ = NAMES = ("_tm_count", *(f"_tm_{lane}" for lane in LANES))
STORED = ("record_count", *(f"key_digest_{lane}" for lane in LANES))
"""The names in evidence of groups. Runs with digests of version 1 have no second hash."""
HALF = 0xFFFFFFFF


def lanes(key: Column | str) -> list[Column]:
    """Build a count and four sums: the halves of two 64-bit hashes of the key, with two seeds. Sums
    of 32-bit halves cannot overflow before two billion records per group. A key that is a name or
    other SQL takes a tenth of the calls into Java.
    """
    if isinstance(key, str):
        hashes = (f"xxhash64({key})", f"xxhash64(1, {key})")
        halves = [half for h in hashes for half in (f"shiftright({h}, 32)", f"{h} & {HALF}L")]
        sums = ["count(1)", *(f"sum({half})" for half in halves)]
        return [F.expr(f"{one} AS {name}") for one, name in zip(sums, NAMES, strict=True)]
    return _named([F.count(F.lit(1)), *_sums(_hashes(key))], NAMES)


def lanes_where(key: Column, holds: Column, name: str) -> list[Column]:
    """Build the same over the rows for which a condition holds, with names of their own."""
    hashes = [F.when(holds, hashed) for hashed in _hashes(key)]
    return _named([F.count_if(holds), *_sums(hashes)], [name + lane for lane in NAMES])


def _hashes(key: Column) -> list[Column]:
    return [F.xxhash64(key), F.xxhash64(F.lit(1), key)]


def _sums(hashes: list[Column]) -> list[Column]:
    return [
        F.sum(half)
        for hashed in hashes
        for half in (F.shiftright(hashed, 32), hashed.bitwiseAND(F.lit(HALF)))
    ]


def _named(columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    return [column.alias(name) for column, name in zip(columns, names, strict=True)]


def of_sums(sums: Mapping[str, int | None], names: Sequence[str] = NAMES) -> KeyDigest:
    """Make a digest of sums by name; of version 1 if there is no second hash."""
    known = [int(sums[name] or 0) for name in names if name in sums]
    return KeyDigest(*known) if len(known) == len(names) else KeyDigest.of_version_1(*known)


def of_row(row: Any, name: str = "") -> KeyDigest:
    return KeyDigest(*(row[name + lane] or 0 for lane in NAMES))


def of_keys(keys: DataFrame) -> KeyDigest:
    """Digest a one-column DataFrame of keys in one pass."""
    return of_row(keys.agg(*lanes(F.col(keys.columns[0]))).first())
