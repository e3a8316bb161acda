"""Years of an output: a date that steps computed must be one that every reader can hold.

Records with such a date are rejected at the door; what steps make of the others is checked here, by
the statistics in the footers. Rows are read only if there is something to report.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tallyman.engine.expressions.column_names import SYSTEM, quoted
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.parquet_set import outside_years, top_column
from tallyman.engine.files.parquet_types import of_spark
from tallyman.engine.source.unfit import far_years
from tallyman.errors import YearOutOfRange


def refuse_far_years(
    spark: SparkSession, target: str, folders: Sequence[Path], key: Sequence[str], shown: Redaction
) -> None:
    """Raise YearOutOfRange for the first column with a year outside 1 to 9999."""
    for folder in folders:
        paths = {
            path
            for file in sorted(folder.glob("*.parquet"))
            for path in outside_years(pq.read_metadata(file))
        }
        if paths:
            _refuse(spark, target, folder, paths, key, shown)


def _refuse(
    spark: SparkSession,
    target: str,
    folder: Path,
    paths: set[str],
    key: Sequence[str],
    shown: Redaction,
) -> None:
    rows = spark.read.parquet(str(folder)).drop(SYSTEM)
    for name in sorted({top_column(path, rows.columns) for path in paths} & {*rows.columns}):
        far = far_years(quoted(name), of_spark(rows.schema[name].dataType.jsonValue()))
        found = rows.where(far) if far is not None else rows.limit(0)
        named = [n for n in key if n in rows.columns]
        texts = [f"{shown.shown(n, quoted(n))} AS k{i}" for i, n in enumerate(named)]
        value = f"{shown.shown(name, quoted(name))} AS value"
        first = found.selectExpr(*texts, value).limit(1).collect()
        if first:
            at = {n: str(first[0][f"k{i}"]) for i, n in enumerate(named)}
            raise YearOutOfRange(target, name, found.count(), at, str(first[0]["value"]))
