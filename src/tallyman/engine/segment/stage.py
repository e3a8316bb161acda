"""A stage: the one write of a segment, all rows in one job, partitioned by where they ended."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructType

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.expressions.column_names import KEY, LIVE, PART, PLACE, REJECTIONS
from tallyman.engine.expressions.columns import col
from tallyman.engine.segment.segment import Flow
from tallyman.engine.spark import digest

EVIDENCE_OPTIONS: Mapping[str, str] = {
    # Delta encodings make a column of keys several times smaller; nobody prunes by statistics here.
    "parquet.writer.version": "PARQUET_2_0",
    "parquet.enable.dictionary#source_key": "false",
    "parquet.enable.dictionary#source_place": "false",
    "parquet.column.statistics.enabled": "false",
    "parquet.size.statistics.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """The output of one segment. `key` and `reasons` read a row's key and rejections."""

    spark: SparkSession
    path: str
    schema: StructType
    key: Column
    reasons: Column
    multiplicity: str | None = None
    """The column with the number of records a row stands for, if rows were merged."""
    level: int = 0
    place: str | None = None
    """The column with the place of each record, if keys do not distinguish records."""
    sources: tuple[Column, ...] = ()
    """Columns with count and digest of each group's rows, if rows are groups."""

    def read(self) -> DataFrame:
        return self.spark.read.schema(self.schema).parquet(self.path)

    def live(self) -> DataFrame:
        return self.read().where(F.col(PART) == LIVE).drop(PART)

    def parts(self) -> set[int]:
        """List the parts that have rows, by their folders."""
        found = Path(self.path).glob(f"{PART}=*")
        return {int(folder.name.partition("=")[2]) for folder in found}

    def live_folder(self) -> str:
        return os.path.join(self.path, f"{PART}={LIVE}")

    def dropped(self) -> DataFrame:
        """Read key, part, rejections and place of every record that ended in this segment."""
        rows = self.read().where(F.col(PART) != LIVE)
        place = F.col(self.place) if self.place else F.lit(None)
        named = [self.key.alias(KEY), PART, self.reasons.alias(REJECTIONS), place.alias(PLACE)]
        found = rows.select(*named, *self._count())
        if not self.multiplicity:
            return found
        again = F.explode(F.sequence(F.lit(1), F.col(self.multiplicity)))
        return found.withColumn("_tm_copy", again).drop("_tm_copy", self.multiplicity)

    def with_sources(self, place: str) -> Stage:
        """Mark as a stage of groups, each with count and digest of its rows in a struct."""
        return replace(self, sources=tuple(F.col(f"{place}.{name}") for name in digest.NAMES))

    def sources_ended(self) -> KeyDigest:
        """Digest the rows of all groups that ended in this segment."""
        if not self.sources or not self.parts() - {LIVE}:
            return KeyDigest()
        return self._behind(self.read().where(F.col(PART) != LIVE))

    def sources_live(self) -> KeyDigest:
        """Digest the rows of all groups that are still live."""
        return self._behind(self.read().where(F.col(PART) == LIVE))

    def _behind(self, groups: DataFrame) -> KeyDigest:
        sums = [F.sum(v).alias(n) for n, v in zip(digest.NAMES, self.sources, strict=True)]
        return digest.of_row(groups.agg(*sums).first())

    def _count(self) -> list[str]:
        return [self.multiplicity] if self.multiplicity else []

    def totals(self) -> dict[int, KeyDigest]:
        """Count and digest the rows that ended, per part. Live rows are measured where they are
        kept.
        """
        if not self.parts() - {LIVE}:
            return {}
        ended = self.read().where(F.col(PART) != LIVE).groupBy(PART)
        if self.multiplicity:
            found = ended.agg(*(F.sum(n).alias(n) for n in digest.NAMES))
        else:
            found = ended.agg(*digest.lanes(self.key))
        return {row[PART]: digest.of_row(row) for row in found.collect()}  # a row per part


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """The written rows of an output, before they are moved to their place."""

    folder: Path
    schema: StructType
    level: int | None = None
    """The level of all rows; None if each row names the step that made it."""
    group_columns: tuple[str, ...] | None = None
    """The columns that identify a row, if rows are groups without other marks."""

    @classmethod
    def of_stage(cls, stage: Stage) -> WrittenRows:
        schema = StructType([f for f in stage.schema if f.name != PART])
        return cls(Path(stage.live_folder()), schema, stage.level)


def write(
    flow: Flow,
    path: str,
    columns: Sequence[Column],
    *,
    key: Column,
    reasons: Column,
    place: str = PLACE,
) -> Stage:
    """Evaluate and write the segment once."""
    rows = flow.with_tags().rows.select(F.col(PART).cast("int").alias(PART), *columns)
    schema = _write(rows, path, {})
    shown = place if flow.placed else None
    return Stage(flow.rows.sparkSession, path, schema, key, reasons, None, flow.level, shown)


def write_keys(
    flow: Flow, path: str, columns: Sequence[Column], *, key: Column, place: str
) -> Stage:
    """Evaluate and write rows with keys that are the evidence."""
    rows = flow.with_tags().rows.select(F.col(PART).cast("int").alias(PART), *columns)
    schema = _write(rows, path, EVIDENCE_OPTIONS)
    spark, shown = flow.rows.sparkSession, place if flow.placed else None
    return Stage(spark, path, schema, key, F.col(REJECTIONS), None, flow.level, shown)


def write_merged(flow: Flow, rows: DataFrame, path: str) -> Stage:
    """Write rows already merged by an aggregation, with count and digest."""
    schema = _write(rows, path, EVIDENCE_OPTIONS)
    spark, reasons = flow.rows.sparkSession, F.col(REJECTIONS)
    shown = PLACE if flow.placed else None
    return Stage(spark, path, schema, F.col(KEY), reasons, digest.COUNT, flow.level, shown)


def _write(rows: DataFrame, path: str, options: Mapping[str, str]) -> StructType:
    rows.write.options(**options).partitionBy(PART).parquet(path)
    return StructType([f for f in rows.schema if f.name != PART]).add(PART, IntegerType())


def user_columns(flow: Flow) -> list[Column]:
    """Select the user's columns; NULL on ended rows, which are identified by their key alone."""
    return [flow.live(col(name)).alias(name) for name in flow.columns]
