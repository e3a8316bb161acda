"""Text inputs line by line: every line is numbered, none is skipped silently.

Spark's text reader has no row index. Lines of one split arrive in order, so the number of a line is
its position in its split plus the lines of the earlier splits; splits are counted once.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tallyman.engine.files.listing import InputFiles
from tallyman.engine.source.tasks import in_few_tasks
from tallyman.engine.spark.small_tables import table

TEXT, FILE, NUMBER = "_tm_text", "_tm_file", "_tm_number"


@dataclass(frozen=True, slots=True)
class Splits:
    """The first line number of each split of each file, and the first line of each file."""

    table: DataFrame
    first_lines: dict[str, str]
    lines: int
    marked: frozenset[str] = frozenset()
    """The paths of files with a line for which the given condition holds."""


def _raw(spark: SparkSession, files: InputFiles, separator: str | None) -> DataFrame:
    reader = spark.read if separator is None else spark.read.option("lineSep", separator)
    rows = reader.text(files.paths).select(
        F.col("value").alias(TEXT),
        F.col("_metadata.file_path").alias("_tm_path"),
        F.col("_metadata.file_block_start").alias("_tm_split"),
        F.monotonically_increasing_id().alias("_tm_position"),
    )
    return in_few_tasks(rows, files)


def local_path(uri: str) -> str:
    return "/" + unquote(uri).removeprefix("file:").lstrip("/")


def relative_name(path: Column, root: str) -> Column:
    """Return the file's name relative to the root of its input. Spark gives paths as URIs."""
    plain = F.expr("url_decode(replace({}, '+', '%2B'))".format("_tm_path"))
    start = F.locate(root + "/", plain)
    return F.substr(plain, start + F.lit(len(root) + 1))


def splits(
    spark: SparkSession,
    files: InputFiles,
    separator: str | None = None,
    mark: Column | None = None,
) -> Splits:
    """Count the lines of each split; note the files with a line for which `mark` holds."""
    marks = [F.max(mark).alias("marked")] if mark is not None else []
    found = (
        _raw(spark, files, separator)
        .groupBy("_tm_path", "_tm_split")
        .agg(
            F.count(F.lit(1)).alias("lines"),
            F.min("_tm_position").alias("first"),
            # Bytes that are not UTF-8 cannot be collected.
            F.make_valid_utf8(F.min_by(TEXT, "_tm_position")).alias("text"),
            *marks,
        )
        .collect()  # one row per split, not per record
    )
    before: dict[str, int] = {}
    rows: list[tuple[str, int, int]] = []
    first_lines: dict[str, str] = {}
    for row in sorted(found, key=lambda r: (r["_tm_path"], r["_tm_split"])):
        path = row["_tm_path"]
        first_lines.setdefault(path, row["text"])
        rows.append((path, row["_tm_split"], before.get(path, 0) - row["first"] + 1))
        before[path] = before.get(path, 0) + row["lines"]
    kinds = ["_tm_path string", "_tm_split int64", "_tm_offset int64"]
    marked = frozenset(local_path(row["_tm_path"]) for row in found if marks and row["marked"])
    return Splits(table(spark, kinds, rows), first_lines, sum(before.values()), marked)


def numbered(
    spark: SparkSession, files: InputFiles, known: Splits, separator: str | None = None
) -> DataFrame:
    """Read text, file and line number (from 1) of every line."""
    lines = _raw(spark, files, separator).join(
        F.broadcast(known.table), ["_tm_path", "_tm_split"], "left"
    )
    return lines.select(
        TEXT,
        relative_name(F.col("_tm_path"), files.root).alias(FILE),
        (F.col("_tm_position") + F.col("_tm_offset")).alias(NUMBER),
    )


def is_blank(text: Column) -> Column:
    """True if the text is only white space. Stops at the first other character."""
    return F.octet_length(F.ltrim(text, F.lit(" \t\r"))) == 0


def is_place(key: Column) -> Column:
    """True if a key is `@file#ordinal`, the name of a record without a key of its own."""
    return F.startswith(key, F.lit("@")) & F.rlike(key, F.lit("#[0-9]+$"))
