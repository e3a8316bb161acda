"""Appending: only rows with a new unique key; of equal keys in one batch, one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tallyman.engine.evidence import write
from tallyman.engine.evidence.content import measure
from tallyman.engine.expressions.column_names import SYSTEM, quoted
from tallyman.engine.expressions.columns import col
from tallyman.engine.files import parquet
from tallyman.errors import RowsUnaccountedFor

RANK = "_tm_rank"


@dataclass(frozen=True, slots=True)
class NewRows:
    folder: Path
    rows: int
    dropped: int
    digest: str | None = None
    """None if nothing was dropped: the rows are those that were made."""


def new_rows(
    spark: SparkSession, made: Path, current: Sequence[str], key: Sequence[str], target: Path
) -> NewRows:
    """Write the new rows to `target`, or return the made ones unchanged if all of them are new."""
    rows = spark.read.parquet(str(made))
    total = parquet.rows_in(sorted(made.rglob("*.parquet")))
    kept = _once(rows, key)
    if current:
        there = spark.read.parquet(*current).select(*(col(name) for name in key)).distinct()
        mine, theirs = kept.alias("mine"), there.alias("theirs")
        kept = mine.join(theirs, _same_key(key), "left_anti")
    left = kept.count()
    if left == total:
        return NewRows(made, total, 0)
    unfinished = target.with_name(f".{target.name}")
    kept.write.mode("overwrite").parquet(str(unfinished))
    write.move_files(unfinished, target)
    write.clear(unfinished)
    if (written := parquet.rows_in(sorted(target.rglob("*.parquet")))) != left:
        raise RowsUnaccountedFor(target.name, max(left - written, 0), max(written - left, 0), 0)
    digest = measure(spark.read.parquet(str(target)).drop(SYSTEM)).digest
    return NewRows(target, left, total - left, digest)


def _once(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Keep one row per key; the choice does not depend on the order of rows."""
    plain = [F.to_json(F.struct(col(name))) for name in rows.columns if name != SYSTEM]
    first = Window.partitionBy(*(col(name) for name in key)).orderBy(*plain)
    ranked = rows.withColumn(RANK, F.row_number().over(first))
    return ranked.where(F.col(RANK) == 1).drop(RANK)


def _same_key(key: Sequence[str]) -> Column:
    """Compare keys; NULL equals NULL."""
    pairs = [F.col(f"mine.{quoted(n)}").eqNullSafe(F.col(f"theirs.{quoted(n)}")) for n in key]
    return reduce(lambda a, b: a & b, pairs)
