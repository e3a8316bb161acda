"""Text inputs line by line: every line is numbered, none is skipped silently.

Spark's text reader has no row index. Lines of one split arrive in order, so the number of a line is
its position in its split plus the lines of the earlier splits; splits are counted once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tallyman.engine.expressions.column_names import literal
from tallyman.engine.files.compressed import compression
from tallyman.engine.files.listing import InputFiles
from tallyman.engine.source.source import in_few_tasks
from tallyman.engine.spark.small_tables import table

ONE_SPLIT = 1 << 20
"""The largest file that is read in one split, and looked at in this process, not by a Spark job."""
SPLITTING = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
"""Settings of Spark that could divide such a file."""
TEXT, FILE, NUMBER = "_tm_text", "_tm_file", "_tm_number"
LINE_END = re.compile(r"\r\n|\r|\n")
PATH, SPLIT, POSITION, OFFSET = "_tm_path", "_tm_split", "_tm_position", "_tm_offset"


@dataclass(frozen=True, slots=True)
class Splits:
    """The first line number of each split of each file, and the first line of each file."""

    table: DataFrame | None
    """None if there is one file in one split, or no line at all."""
    first_lines: dict[str, str]
    lines: int
    marked: frozenset[str] = frozenset()
    """The paths of files with a line for which the given condition holds."""


@dataclass(frozen=True, slots=True)
class LineMark:
    """A condition on lines, for Spark and for this process."""

    sql: str
    holds: Callable[[str], bool]


def _raw(spark: SparkSession, files: InputFiles, separator: str | None) -> DataFrame:
    reader = spark.read if separator is None else spark.read.option("lineSep", separator)
    rows = reader.text(files.paths).selectExpr(
        f"value AS {TEXT}",
        f"_metadata.file_path AS {PATH}",
        f"_metadata.file_block_start AS {SPLIT}",
        f"monotonically_increasing_id() AS {POSITION}",
    )
    return in_few_tasks(rows, files)


def local_path(uri: str) -> str:
    return "/" + unquote(uri).removeprefix("file:").lstrip("/")


def relative_name(path: str, root: str) -> str:
    """Write a file's name relative to the root of its input. Spark gives paths as URIs."""
    plain = f"url_decode(replace({path}, '+', '%2B'))"
    return f"substr({plain}, locate({literal(root + '/')}, {plain}) + {len(root) + 1})"


def splits(
    spark: SparkSession,
    files: InputFiles,
    separator: str | None = None,
    mark: LineMark | None = None,
) -> Splits:
    """Count the lines of each split; note the files with a line for which `mark` holds."""
    if (known := _in_one_split(spark, files, separator, mark)) is not None:
        return known
    sums = [
        "count(1) AS lines",
        f"min({POSITION}) AS first",
        # Bytes that are not UTF-8 cannot be collected.
        f"make_valid_utf8(min_by({TEXT}, {POSITION})) AS text",
        f"max({mark.sql if mark else 'false'}) AS marked",
    ]
    each = _raw(spark, files, separator).groupBy(PATH, SPLIT).agg(*map(F.expr, sums))
    found = each.collect()  # one row per split, not per record
    before: dict[str, int] = {}
    rows: list[tuple[str, int, int]] = []
    first_lines: dict[str, str] = {}
    for row in sorted(found, key=lambda r: (r[PATH], r[SPLIT])):
        path = row[PATH]
        first_lines.setdefault(path, row["text"])
        rows.append((path, row[SPLIT], before.get(path, 0) - row["first"] + 1))
        before[path] = before.get(path, 0) + row["lines"]
    marked = frozenset(local_path(row[PATH]) for row in found if row["marked"])
    offsets = table(spark, [PATH, SPLIT, OFFSET], rows) if rows else None
    return Splits(offsets, first_lines, sum(before.values()), marked)


def _in_one_split(
    spark: SparkSession, files: InputFiles, separator: str | None, mark: LineMark | None
) -> Splits | None:
    """Look at the lines of a small file here: a Spark job takes longer, and the first one seconds.
    None if there are several files, if Spark may divide it, or if it is not plain UTF-8.
    """
    if len(files.files) != 1 or files.bytes > ONE_SPLIT or compression(files.files[0].path):
        return None
    if any(spark.conf.get(name, None) is not None for name in SPLITTING):
        return None
    [file] = files.files
    try:
        text = Path(file.path).read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):  # Spark says what is wrong, or reads it differently
        return None
    found = text.split(separator) if separator else LINE_END.split(text)
    if found[-1] == "":  # what follows the last line end is no line
        found.pop()
    first = {file.path: found[0]} if found else {}
    marked = mark is not None and any(map(mark.holds, found))
    return Splits(None, first, len(found), frozenset([file.path] if marked else []))


def numbered(
    spark: SparkSession, files: InputFiles, known: Splits, separator: str | None = None
) -> DataFrame:
    """Read text, file and line number (from 1) of every line."""
    lines, name, offset = _raw(spark, files, separator), relative_name(PATH, files.root), OFFSET
    if known.table is None:
        offset = "1"
    else:
        lines = lines.join(F.broadcast(known.table), [PATH, SPLIT], "left")
    return lines.selectExpr(TEXT, f"{name} AS {FILE}", f"{POSITION} + {offset} AS {NUMBER}")


def is_blank(text: str) -> str:
    """Write a condition: the text is only white space. Stops at the first other character."""
    bare = f"octet_length(trim(LEADING ' \\t\\r' FROM {text})) = 0"
    return f"(NOT startswith({text}, '{{') AND {bare})"  # most lines of JSON need no copy


def is_place(key: str) -> str:
    """Write a condition: a key is `@file#ordinal`, the name of a record without its own key."""
    return f"(startswith({key}, '@') AND {key} RLIKE '#[0-9]+$')"
