"""Spark's xxhash64, computed in this process with the same values.

It is XXH64 with seed 42; in a row of values the hash of each is the seed of the next, and NULL
leaves the seed as it is. Types of which only Spark knows the bytes raise NoSparkText.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds
import xxhash

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.spark.spark_text import NoSparkText

SEED = 42
LOW = 0xFFFFFFFF
LONG_DECIMAL = 18
"""Decimals with more digits are hashed as the bytes of their unscaled number."""
_INT, _LONG, _FLOAT, _DOUBLE = map(struct.Struct, ("<i", "<q", "<f", "<d"))
SECOND_SEED = xxhash.xxh64_intdigest(_INT.pack(1), SEED)
"""The seed of xxhash64(1, key)."""
Hashes = list[int]


def digest_of(keys: Iterable[str | None]) -> KeyDigest:
    """Digest keys, equal to what `digest.lanes` adds up in Spark."""
    known = [None if key is None else key.encode() for key in keys]
    first, second = (
        [seed if key is None else xxhash.xxh64_intdigest(key, seed) for key in known]
        for seed in (SEED, SECOND_SEED)
    )
    return KeyDigest(len(known), *halves(first), *halves(second))


def halves(hashes: Hashes) -> tuple[int, int]:
    """Add up the upper and the lower halves of hashes."""
    # Spark's hash is signed and its upper half is shifted with the sign.
    negative = sum(1 for h in hashes if h >> 63)
    return sum(h >> 32 for h in hashes) - (negative << 32), sum(h & LOW for h in hashes)


def row_hashes(columns: Sequence[pa.ChunkedArray], rows: int, seed: int) -> Hashes:
    """Hash each row: xxhash64 of the seed, the flags of its NULLs, and its values."""
    values = [_bytes(column) for column in columns]
    begun = xxhash.xxh64_intdigest(_INT.pack(seed), SEED)
    hashes = [
        xxhash.xxh64_intdigest(b"".join(b"1" if v is None else b"0" for v in row), begun)
        for row in (zip(*values, strict=True) if values else [()] * rows)
    ]
    for column in values:
        hashes = [
            h if value is None else xxhash.xxh64_intdigest(value, h)
            for value, h in zip(column, hashes, strict=True)
        ]
    return hashes


def _bytes(values: pa.ChunkedArray) -> list[bytes | None]:
    write = _writer(values.type)
    if write is None:
        raise NoSparkText(str(values.type))
    if kinds.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif kinds.is_date32(values.type):
        values = values.cast(pa.int32())
    elif kinds.is_string(values.type):
        values = values.cast(pa.binary())
    return [None if value is None else write(value) for value in values.to_pylist()]


def _writer(kind: pa.DataType) -> Callable[[Any], bytes] | None:
    if kinds.is_string(kind) or kinds.is_binary(kind):
        return bytes
    if kinds.is_boolean(kind) or kinds.is_date32(kind):
        return _INT.pack
    if kinds.is_signed_integer(kind):
        return _LONG.pack if kind.bit_width == 64 else _INT.pack
    if kinds.is_timestamp(kind) and kind.unit == "us":
        return _LONG.pack
    if kinds.is_float32(kind) or kinds.is_float64(kind):
        return _floating(_FLOAT if kinds.is_float32(kind) else _DOUBLE)
    if kinds.is_decimal128(kind):
        return _short_decimal if kind.precision <= LONG_DECIMAL else _long_decimal
    return None


def _floating(form: struct.Struct) -> Callable[[float], bytes]:
    def write(value: float) -> bytes:
        # One zero, and one of the many values that are not a number.
        return form.pack(float("nan") if value != value else value + 0.0)

    return write


def _unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    found = int("".join(map(str, digits)))
    return -found if sign else found


def _short_decimal(value: Decimal) -> bytes:
    return _LONG.pack(_unscaled(value))


def _long_decimal(value: Decimal) -> bytes:
    number = _unscaled(value)
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
