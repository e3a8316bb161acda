"""The measurements of `kept` made by Spark, for files too large to read in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.expressions.column_names import KEY, SYSTEM, quoted
from tallyman.engine.segment.group_key import group_text, pair, text_of_group
from tallyman.engine.source.source import key_text
from tallyman.engine.spark import digest

SUM = "_tm_sum"
STEP = "_tm_step"
BEHIND = "first AND grp IS NOT NULL"
"""The first letter of a row that failed with its group."""
LETTER = (
    "source_key string, error_type string, morphism_path string, actual string, "
    "error_code string, "
    "context struct<level: string, group_step: string, group_key: string, rejection: string>"
)


def keys(rows: DataFrame, column: str) -> KeyDigest:
    return digest.of_keys(rows, quoted(column))


def grouped(rows: DataFrame) -> tuple[KeyDigest, KeyDigest]:
    """Digest in one job: rows are grouped, then the groups are added up."""
    if "source_key" in rows.columns:
        each = rows.groupBy("group_key").agg(*map(F.expr, digest.lanes("source_key")))
    else:
        names = zip(digest.STORED, digest.NAMES, strict=True)
        stored = [F.col(old).alias(name) for old, name in names]
        each = rows.select("group_key", *stored)
    sums = [f"sum({name}) AS {SUM}{name}" for name in digest.NAMES]
    found = each.selectExpr(*sums, *digest.lanes(text_of_group(rows))).first()
    assert found is not None
    return digest.of_row({n: found[f"{SUM}{n}"] for n in digest.NAMES}), digest.of_row(found)


def pairs(rows: DataFrame) -> KeyDigest:
    return digest.of_keys(rows, pair(text_of_group(rows), "source_key"))


def children(rows: DataFrame) -> tuple[KeyDigest, KeyDigest, int]:
    parents = digest.of_keys(rows.where("child_key = concat(parent_key, '/0')"), "parent_key")
    stray = rows.where("NOT startswith(child_key, concat(parent_key, '/'))").count()
    return parents, digest.of_keys(rows, "child_key"), stray


def passed(rows: DataFrame, key_columns: Sequence[str]) -> dict[str | None, KeyDigest]:
    found = by_step(rows, list(map(F.expr, digest.lanes(output_key(key_columns)))))
    return {step: digest.of_row(row) for step, row in found.items() if row[digest.COUNT]}


def output_key(key_columns: Sequence[str]) -> str:
    own = [f"{SYSTEM}.key", *([key_text(key_columns)] if key_columns else [])]
    return f"coalesce({', '.join(own)})"


def by_step(rows: DataFrame, sums: Sequence[Column]) -> dict[str | None, Row]:
    """Aggregate the rows of an output by the step that made them, None for rows of records. Without
    a step in any row there is no grouping, which takes Spark much longer than the sums.
    """
    if "step" not in rows.schema[SYSTEM].dataType.names:  # type: ignore[attr-defined]
        found = rows.agg(*sums).first()
        assert found is not None
        return {None: found}
    each = rows.groupBy(F.col(f"{SYSTEM}.step").alias(STEP)).agg(*sums)
    return {row[STEP]: row for row in each.collect()}  # a row per step


def group_rows(rows: DataFrame, by: Sequence[str]) -> KeyDigest:
    return digest.of_keys(rows, group_text(by, [quoted(name) for name in by]))


def letters(spark: SparkSession, files: list[str]) -> tuple[Any, ...]:
    """Compute the fields of `kept.LetterCounts`. Reading the lines is what takes the time: they are
    read twice, and a third time if whole groups failed.
    """
    rows = spark.read.schema(LETTER).json(files)
    context, place = F.col("context"), F.split(F.col("context.rejection"), "/")
    each = rows.select(
        F.col("source_key").alias(KEY),
        F.coalesce(context["level"].cast("int"), F.lit(0)).alias("level"),
        context["group_step"].alias("step"),
        context["group_key"].alias("grp"),
        F.coalesce(place[0] == "1", F.lit(False)).alias("first"),
        place[1].cast("int").alias("of"),
    )
    counted = _counted(each)
    behind = [row for row in counted if row["behind"][digest.COUNT]]
    groups = _failed_groups(each) if behind else {}
    return (
        _added(counted, "level", "alone"),
        _added(behind, "step", "behind"),
        groups,
        _added(behind, "step", "pairs"),
        sum(row["letters"] for row in counted),
        sum(int(row["promised"] or 0) for row in counted),
        _summary(rows),
    )


def _counted(each: DataFrame) -> list[Row]:
    """Count and digest letters by level and step: a row for each."""
    kinds = {
        "alone": digest.lanes(KEY, "first AND grp IS NULL"),
        "behind": digest.lanes(KEY, BEHIND),
        "pairs": digest.lanes(pair("grp", KEY), BEHIND),
    }
    found = each.groupBy("level", "step").agg(
        F.expr("count(1) AS letters"),
        F.expr("sum(of) FILTER (WHERE first) AS promised"),
        *(F.expr(f"struct({', '.join(sums)}) AS {name}") for name, sums in kinds.items()),
    )
    return found.collect()


def _added(rows: Sequence[Row], by: str, kind: str) -> dict[Any, KeyDigest]:
    found: dict[Any, KeyDigest] = {}
    for row in rows:
        one = digest.of_row(row[kind])
        if one.count:
            found[row[by]] = found.get(row[by], KeyDigest()) + one
    return found


def _failed_groups(each: DataFrame) -> dict[Any, KeyDigest]:
    failed = each.where(BEHIND).select("step", "grp").distinct()
    found = failed.groupBy("step").agg(*map(F.expr, digest.lanes("grp"))).collect()
    return {row["step"]: digest.of_row(row) for row in found}


def _summary(rows: DataFrame) -> list[dict[str, Any]]:
    summary = rows.groupBy("error_type", "morphism_path").agg(
        F.count(F.lit(1)).alias("count"),
        F.min("error_code").alias("sample_error_code"),
        F.min("actual").alias("sample_actual_value"),
    )
    listed = [row.asDict() for row in summary.collect()]  # a row per rule
    return sorted(listed, key=lambda row: (row["error_type"], row["morphism_path"]))
