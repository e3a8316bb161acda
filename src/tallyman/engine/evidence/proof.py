"""Proof on keys: inputs against what the kept files account for, with multiplicity.

Records are compared with the door; groups and children with the evidence of the step that made
them. Every difference is counted, and at most a hundred keys of each kind are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StringType, StructField, StructType

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import Discrepancy, Ledger, Partition, SubLedger
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.engine.evidence.kept import EVIDENCE, WHOLE_GROUP
from tallyman.engine.evidence.kept_by_spark import output_key
from tallyman.engine.expressions.column_names import KEY, SYSTEM, quoted
from tallyman.engine.expressions.columns import col
from tallyman.engine.segment.group_key import (
    GROUP_KEY,
    SOURCE_KEY,
    WHOLE,
    group_text,
    text_of_group,
)
from tallyman.engine.source.source import Input
from tallyman.engine.spark.small_tables import empty, table

SAMPLES = 100
FEW = 1_000
"""The largest number of differences that are collected, which saves Spark a job for each kind."""
LETTER = StructType().add(SOURCE_KEY, "string").add("context", MapType(StringType(), StringType()))
KINDS = ("missing", "extra", "duplicate")


def compare_keys(
    inputs: Sequence[Input], ledger: Ledger | StoredLedger, folder: Path
) -> Discrepancy:
    """Compare in one shuffle of keys how often each record came in and was accounted for."""
    came = reduce(DataFrame.unionAll, [source.keys() for source in inputs])
    claims = Claims(inputs[0].spark, folder, ledger)
    return _compare(came, claims.accounted(0))


def compare_units(spark: SparkSession, ledger: Ledger | StoredLedger, folder: Path) -> Discrepancy:
    """Compare the same for the rows that steps made of records."""
    claims = Claims(spark, folder, ledger)
    found = Discrepancy()
    for level in range(1, 1 + len(ledger.sub_ledgers)):
        found += _compare(claims.made(level), claims.accounted(level))
    return found


def _compare(came: DataFrame, met: DataFrame) -> Discrepancy:
    both = came.select(KEY, F.lit(1).alias("came"), F.lit(0).alias("met")).unionAll(
        met.select(KEY, F.lit(0).alias("came"), F.lit(1).alias("met"))
    )
    counted = both.groupBy(KEY).agg(F.sum("came").alias("came"), F.sum("met").alias("met"))
    wrong = counted.where("came <> met").select(
        KEY,
        F.expr("greatest(came - met, 0)").alias("missing"),
        F.expr("if(came = 0, met, 0)").alias("extra"),
        F.expr("if(came > 0, greatest(met - came, 0), 0)").alias("duplicate"),
    )
    few = wrong.limit(FEW + 1).collect()
    if len(few) <= FEW:
        return _counted(few)
    # Spark sums the counts, and names are limited, so that few rows are collected.
    row = wrong.agg(*(F.coalesce(F.sum(k), F.lit(0)).alias(k) for k in KINDS)).first()
    assert row is not None
    samples = {kind: _named(wrong, kind) if row[kind] else [] for kind in KINDS}
    return Discrepancy(**{k: int(row[k]) for k in KINDS}, samples=samples)


def _counted(wrong: Sequence[Row]) -> Discrepancy:
    samples = {k: sorted(row[KEY] for row in wrong if row[k])[:SAMPLES] for k in KINDS}
    return Discrepancy(**{k: sum(row[k] for row in wrong) for k in KINDS}, samples=samples)


def _named(wrong: DataFrame, kind: str) -> list[str]:
    named = wrong.where(f"{kind} > 0").select(KEY).orderBy(KEY).limit(SAMPLES)
    return [row[KEY] for row in named.collect()]


@dataclass(frozen=True, slots=True)
class Claims:
    """The keys that a ledger's partitions claim, read from the files they name."""

    spark: SparkSession
    folder: Path
    ledger: Ledger | StoredLedger

    def accounted(self, level: int) -> DataFrame:
        """Read every key that a partition of the level claims, as often as it is claimed."""
        found = [keys for _, keys in self.by_partition(level)]
        return reduce(DataFrame.unionAll, found, self._none())

    def by_partition(self, level: int) -> list[tuple[Partition, DataFrame]]:
        """Read the keys of each partition of the level."""
        partitions = self._sub(level).partitions if level else self.ledger.partitions
        return [(part, self._claimed(part, level, partitions)) for part in partitions]

    def made(self, level: int) -> DataFrame:
        """Read the keys of all rows that a step made, from its evidence."""
        sub = self._sub(level)
        step, unit = sub.opened_by, sub.unit
        rows = self._parquet(f"{EVIDENCE[unit]}/{step}.parquet")
        if unit == "child":
            return self._none() if rows is None else rows.select(col("child_key").alias(KEY))
        if is_whole(sub):
            return table(self.spark, [KEY], [["{}"]])
        groups = self._none()
        if rows is not None:
            groups = rows.selectExpr(f"{text_of_group(rows)} AS {KEY}").distinct()
        return groups.unionAll(self._failed_groups(step)) if unit == "group" else groups

    def _sub(self, level: int) -> SubLedger:
        return self.ledger.sub_ledgers[level - 1]

    def _claimed(self, part: Partition, level: int, partitions: Sequence[Partition]) -> DataFrame:
        if part.fate is Fate.ERROR:
            return self._rejected(level, partitions)
        rows = self._parquet(part.location)
        if rows is None:
            return self._none()
        if part.fate is Fate.EXPLODED:
            # Every parent has exactly one first child; two parents with one key have two.
            first = F.col("child_key") == F.concat("parent_key", F.lit("/0"))
            return rows.where(first).select(F.col("parent_key").alias(KEY))
        if part.fate is Fate.PASSED:
            return self._passed(rows, part, level)
        return rows.select(col(SOURCE_KEY).alias(KEY))

    def _passed(self, rows: DataFrame, part: Partition, level: int) -> DataFrame:
        fields = rows.select(f"{SYSTEM}.*").columns if SYSTEM in rows.columns else []
        if "key" not in fields:
            names = self._group_columns(level)
            text = group_text(names, [quoted(name) for name in names])
            return rows.selectExpr(f"{text} AS {KEY}")
        if "step" in fields:
            made_by = F.lit(self._sub(level).opened_by if level else None)
            rows = rows.where(F.col(f"{SYSTEM}.step").eqNullSafe(made_by))
        return rows.selectExpr(f"{output_key(part.key_columns or ())} AS {KEY}")

    def _group_columns(self, level: int) -> list[str]:
        """List the columns that identify a group, from the evidence of the step that made it."""
        evidence = self._parquet(f"{EVIDENCE['group']}/{self._sub(level).opened_by}.parquet")
        if evidence is None:
            return []
        return [n for n in evidence.select(f"{GROUP_KEY}.*").columns if n != WHOLE]

    # ---- dead letters ----------------------------------------------------------------------

    def _rejected(self, level: int, partitions: Sequence[Partition]) -> DataFrame:
        """Read rows that failed themselves, rows of failed groups, and failed groups by key."""
        first = self._letters()
        sub = self._sub(level) if level else None
        if sub is not None and sub.unit == "group":
            found = self._failed_groups(sub.opened_by)
        else:
            alone = F.col("context")["group_key"].isNull()
            here = F.coalesce(F.col("context")["level"].cast("int"), F.lit(0)) == level
            found = first.where(alone & here).select(F.col(SOURCE_KEY).alias(KEY))
        for step in grouped_by(partitions):
            behind = first.where(F.col("context")["group_step"] == step)
            found = found.unionAll(behind.select(F.col(SOURCE_KEY).alias(KEY)))
        return found

    def _failed_groups(self, step: str) -> DataFrame:
        failed = self._letters().where(F.col("context")["group_step"] == step)
        return failed.select(F.col("context")["group_key"].alias(KEY)).distinct()

    def _letters(self) -> DataFrame:
        """Read the first letter of each record: a record with several rejections has one fate."""
        files = [str(p) for p in sorted((self.folder / "errors").rglob("*.jsonl"))]
        if not files:
            return empty(self.spark, LETTER)
        rows = self.spark.read.schema(LETTER).json(files)
        return rows.where(F.startswith(F.col("context")["rejection"], F.lit("1/")))

    # ---- files -----------------------------------------------------------------------------

    def _parquet(self, place: str) -> DataFrame | None:
        found = sorted((self.folder / place).rglob("*.parquet"))
        files = [str(file) for file in found if file.is_file()]
        return self.spark.read.parquet(*files) if files else None

    def _none(self) -> DataFrame:
        return empty(self.spark, StructType([StructField(KEY, StringType())]))


def is_whole(sub: SubLedger) -> bool:
    """True if a sub-ledger has only the one group of all rows."""
    return sub.unit == "group" and str(sub.units) == str(WHOLE_GROUP)


def grouped_by(partitions: Sequence[Partition]) -> list[str]:
    """List the steps that made groups of rows of a level."""
    return [part.step for part in partitions if part.fate is Fate.AGGREGATED]
