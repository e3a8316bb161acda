"""The content of an output: a digest of its rows, independent of order and files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.evidence import kept_by_spark
from tallyman.engine.expressions.clock import pinned
from tallyman.engine.expressions.column_names import SYSTEM, quoted
from tallyman.engine.files import parquet
from tallyman.engine.files.parquet_types import is_plain
from tallyman.engine.spark import digest, spark_hash

NESTED = (ArrayType, MapType, StructType)
LOW = 0xFFFFFFFF
VALUES = 200_000
"""The largest number of values that are hashed in this process: about a quarter of a second."""
SUMS = ("rows", "s0", "s1", "s2", "s3")


@dataclass(frozen=True, slots=True)
class Content:
    digest: str
    rows: int
    outside: int
    """The number of rows for which `only` does not hold."""
    passed: Mapping[str | None, KeyDigest] | None = None
    """The keys of the rows by the step that made them, if they were digested in the same pass."""


def measure(rows: DataFrame, only: Column | None = None) -> Content:
    """Measure in one pass: add up two 64-bit hashes of each row, so that repeated rows count."""
    found = rows.agg(*_sums(rows, only)).first()
    assert found is not None
    return _content(rows.schema, [found])


def measure_output(
    rows: DataFrame, key_columns: Sequence[str], only: Column | None = None
) -> Content:
    """Measure rows with our column next to their own: content and keys in one pass."""
    own = rows.drop(SYSTEM)
    lanes = map(F.expr, digest.lanes(kept_by_spark.output_key(key_columns)))
    found = kept_by_spark.by_step(rows, [*_sums(own, only), *lanes])
    passed = {step: digest.of_row(row) for step, row in found.items()}
    return replace(_content(own.schema, list(found.values())), passed=passed)


def measure_files(
    spark: SparkSession,
    folder: Path,
    schema: StructType,
    only: Column | None = None,
    key_columns: Sequence[str] = (),
) -> Content:
    """Measure the rows of an output: in this process if there are few, with the same result."""
    files, columns = sorted(folder.glob("*.parquet")), [f for f in schema if f.name != SYSTEM]
    count = parquet.rows_in(files)
    few = parquet.few(count * (len(columns) + 1), VALUES)
    if only is not None or not files or not few or not is_plain(columns):
        rows = spark.read.schema(schema).parquet(str(folder))
        if parquet.few(count) or not _keyed(schema):  # few keys are digested here, with `kept`
            return measure(rows.drop(SYSTEM), only)
        return measure_output(rows, key_columns, only)
    found = parquet.table(files, [f.name for f in columns])
    sums = [found.num_rows]
    for seed in (0, 1):
        hashes = spark_hash.row_hashes([found[f.name] for f in columns], found.num_rows, seed)
        sums += spark_hash.halves(hashes)
    return Content(_digest(columns, sums), found.num_rows, 0)


def _keyed(schema: StructType) -> bool:
    """True unless the rows are groups, identified by their own columns."""
    return SYSTEM in schema.names and "key" in schema[SYSTEM].dataType.names  # type: ignore[attr-defined]


def _sums(rows: DataFrame, only: Column | None) -> list[Column]:
    hashes = _hashes(rows.schema, seeds=(0, 1))
    halves = [half for h in hashes for half in (f"shiftright({h}, 32)", f"({h} & {LOW}L)")]
    sums = ["count(1) AS rows", *(f"sum({half}) AS s{n}" for n, half in enumerate(halves))]
    inside = F.lit(True) if only is None else F.coalesce(only, F.lit(False))
    return [*map(F.expr, sums), F.count_if(~inside).alias("outside")]


def _content(columns: Iterable[StructField], found: Sequence[Row]) -> Content:
    sums = [sum(int(row[name] or 0) for row in found) for name in SUMS]
    return Content(_digest(columns, sums), sums[0], sum(row["outside"] for row in found))


def row_hashes(rows: DataFrame, seeds: Sequence[int]) -> list[Column]:
    """Hash all columns of each row, once per seed."""
    return list(map(F.expr, _hashes(rows.schema, seeds)))


def _hashes(columns: Iterable[StructField], seeds: Sequence[int]) -> list[str]:
    """Write the same in SQL: a call into Java for each hash, not for each value."""
    values = [_value(field) for field in columns]
    # xxhash64 skips NULLs: without the flags, (1, NULL) and (NULL, 1) would be equal.
    missing = [f"{value} IS NULL" for value in values]
    flags = ", ".join(["''", *(f"CASE WHEN {no} THEN '1' ELSE '0' END" for no in missing)])
    nulls = f"concat_ws({flags})"
    if missing:  # most rows have no NULL: their flags need not be put together
        some = " OR ".join(missing)
        nulls = f"CASE WHEN NOT ({some}) THEN '{'0' * len(missing)}' ELSE {nulls} END"
    return [f"xxhash64({', '.join([str(seed), nulls, *values])})" for seed in seeds]


def _value(field: StructField) -> str:
    """Write the value to hash; a nested one as text, because NULLs inside it count too."""
    name = quoted(field.name)
    return f"to_json(struct({name}))" if isinstance(field.dataType, NESTED) else name


def _digest(columns: Iterable[StructField], sums: Sequence[int]) -> str:
    shown = ",".join(f"{f.name}:{f.dataType.simpleString()}" for f in columns)
    return hashlib.sha256("|".join([shown, *map(str, sums)]).encode()).hexdigest()


def holds(rows: DataFrame, condition: str, moment: datetime) -> bool:
    """True if an aggregate over the rows is true at the run's time; NULL is not true."""
    asked = F.expr(pinned(condition, moment, rows.columns))
    found = rows.agg(asked.alias("holds")).first()
    return bool(found and found["holds"])
