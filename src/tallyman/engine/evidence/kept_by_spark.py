"""The measurements of `kept` made by Spark, for files too large to read in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.expressions.column_names import KEY, SYSTEM
from tallyman.engine.expressions.columns import col
from tallyman.engine.segment.group_key import group_text, pair, text_of_group
from tallyman.engine.source.source import key_text
from tallyman.engine.spark import digest

SUM = "_tm_sum"
STEP = "_tm_step"
LETTER = (
    "source_key string, error_type string, morphism_path string, actual string, "
    "error_code string, context map<string,string>"
)


def keys(rows: DataFrame, column: str) -> KeyDigest:
    return digest.of_keys(rows.select(col(column)))


def grouped(rows: DataFrame) -> tuple[KeyDigest, KeyDigest]:
    """Digest in one job: rows are grouped, then the groups are added up."""
    if "source_key" in rows.columns:
        each = rows.groupBy("group_key").agg(*digest.lanes("source_key"))
    else:
        names = zip(digest.STORED, digest.NAMES, strict=True)
        stored = [F.col(old).alias(name) for old, name in names if old in rows.columns]
        each = rows.select("group_key", *stored)
    text = text_of_group(rows)
    known = [name for name in digest.NAMES if name in each.columns]
    sums = [F.sum(name).alias(f"{SUM}{name}") for name in known]
    found = each.agg(*sums, *digest.lanes(text)).first()
    assert found is not None
    return digest.of_sums({n: found[f"{SUM}{n}"] for n in known}), digest.of_row(found)


def pairs(rows: DataFrame) -> KeyDigest:
    both = pair(text_of_group(rows), F.col("source_key"))
    return digest.of_keys(rows.select(both.alias(KEY)))


def children(rows: DataFrame) -> tuple[KeyDigest, KeyDigest, int]:
    first = F.col("child_key") == F.concat("parent_key", F.lit("/0"))
    stray = ~F.startswith(F.col("child_key"), F.concat("parent_key", F.lit("/")))
    parents = digest.of_keys(rows.where(first).select("parent_key"))
    return parents, digest.of_keys(rows.select("child_key")), rows.where(stray).count()


def passed(rows: DataFrame, key_columns: Sequence[str]) -> dict[str | None, KeyDigest]:
    found = by_step(rows, digest.lanes(output_key(rows, key_columns)))
    return {step: digest.of_row(row) for step, row in found.items() if row[digest.COUNT]}


def output_key(rows: DataFrame, key_columns: Sequence[str]) -> Column:
    own = [F.col(f"{SYSTEM}.key"), *([key_text(key_columns)] if key_columns else [])]
    return F.coalesce(*own)


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
    text = group_text(by, [col(name) for name in by])
    return digest.of_keys(rows.select(text.alias(KEY)))


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
    behind = [row for row in counted if row["grouped"]]
    groups = _failed_groups(each) if behind else {}
    return (
        _added(counted, "level", "alone_"),
        _added(behind, "step", "behind_"),
        groups,
        _added(behind, "step", "pair_"),
        sum(row["letters"] for row in counted),
        sum(int(row["promised"] or 0) for row in counted),
        _summary(rows),
    )


def _counted(each: DataFrame) -> list[Row]:
    """Count and digest letters by level and step: a row for each."""
    first, grouped = F.col("first"), F.col("grp").isNotNull()
    pairs = pair(F.col("grp"), F.col(KEY))
    found = each.groupBy("level", "step").agg(
        F.count(F.lit(1)).alias("letters"),
        F.sum(F.when(first, F.col("of"))).alias("promised"),
        F.count_if(first & grouped).alias("grouped"),
        *digest.lanes_where(F.col(KEY), first & ~grouped, "alone_"),
        *digest.lanes_where(F.col(KEY), first & grouped, "behind_"),
        *digest.lanes_where(pairs, first & grouped, "pair_"),
    )
    return found.collect()


def _added(rows: Sequence[Row], by: str, kind: str) -> dict[Any, KeyDigest]:
    found: dict[Any, KeyDigest] = {}
    for row in rows:
        one = digest.of_row(row, kind)
        if one.count:
            found[row[by]] = found.get(row[by], KeyDigest()) + one
    return found


def _failed_groups(each: DataFrame) -> dict[Any, KeyDigest]:
    failed = each.where("first AND grp IS NOT NULL").select("step", "grp").distinct()
    found = failed.groupBy("step").agg(*digest.lanes("grp")).collect()  # a row per step
    return {row["step"]: digest.of_row(row) for row in found}


def _summary(rows: DataFrame) -> list[dict[str, Any]]:
    summary = rows.groupBy("error_type", "morphism_path").agg(
        F.count(F.lit(1)).alias("count"),
        F.min("error_code").alias("sample_error_code"),
        F.min("actual").alias("sample_actual_value"),
    )
    listed = [row.asDict() for row in summary.collect()]  # a row per rule
    return sorted(listed, key=lambda row: (row["error_type"], row["morphism_path"]))
