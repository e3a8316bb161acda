"""A stage: the one write of a segment, all rows in one job."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructType

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.expressions.column_names import KEY, LIVE, PART, PLACE, REJECTIONS, SYSTEM
from tallyman.engine.files import parquet
from tallyman.engine.files.parquet_types import is_plain
from tallyman.engine.segment.ended import EndedColumns, EndedRows, at
from tallyman.engine.segment.segment import Flow
from tallyman.engine.segment.watched import RowsSeen, Watched
from tallyman.engine.spark import digest

EVIDENCE_OPTIONS: Mapping[str, str] = {
    # Delta encodings make a column of keys several times smaller; nobody prunes by statistics here.
    "parquet.writer.version": "PARQUET_2_0",
    "parquet.enable.dictionary#source_key": "false",
    "parquet.enable.dictionary#source_place": "false",
    "parquet.column.statistics.enabled": "false",
    "parquet.size.statistics.enabled": "false",
}


TRACED = -1
"""The part of rows that are written for the trace, next to the rows themselves."""
TRACE = "_trace"
"""The folder of that part in a segment. Spark skips names with an underscore: it is not data."""

LIVE_ROWS = f"{PART}={LIVE}"
"""The folder of the live rows. Where no step can end a row, all are written there as they come: to
divide rows by part costs an eighth of a wide write, and more where parts alternate.
"""

OWN_COLUMNS = EndedColumns(KEY, REJECTIONS, PLACE)
IN_SYSTEM = EndedColumns(f"{SYSTEM}.key", f"{SYSTEM}.rejections", f"{SYSTEM}.place")
"""Where an output has them, next to the user's columns."""


@dataclass(frozen=True, slots=True)
class SegmentFolder:
    """Where a segment is written; `complete` if an earlier attempt did, and it is reused."""

    path: str
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """The output of one segment. `own` names the columns that say what became of a row that
    ended.
    """

    spark: SparkSession
    path: str
    schema: StructType
    own: EndedColumns
    level: int = 0
    sources: tuple[str, ...] = ()
    """Columns with count and digest of each group's rows, if rows are groups."""
    split: bool = True
    """True if each part has a folder of its own, because the live files are kept as they are."""
    seen: tuple[RowsSeen, ...] = ()
    """The rules that were counted while it was written."""

    @property
    def watched(self) -> list[Watched]:
        return [seen.watched for seen in self.seen if seen.watched is not None]

    def rows_written(self) -> int:
        """Count the rows of the segment, as the files have them; merged ones by their number."""
        every = sorted(Path(self.path).rglob("part-*"))
        files = [file for file in every if file.parent.name != TRACE]
        if not self.own.multiplicity:
            return parquet.rows_in(files)
        batches = parquet.batches(files, [digest.COUNT])
        found = (pc.call_function("sum", [b.column(0)]).as_py() for b in batches)
        return sum(int(number or 0) for number in found)

    def read(self) -> DataFrame:
        return self.spark.read.schema(self.schema).parquet(self.path)

    def live(self) -> DataFrame:
        return self.read().where(f"{PART} = {LIVE}").drop(PART)

    def parts(self) -> set[int]:
        """List the parts that have rows, by their folders."""
        assert self.split
        found = Path(self.path).glob(f"{PART}=*")
        return {int(folder.name.partition("=")[2]) for folder in found}

    def trace_files(self) -> list[Path]:
        """List the files with the trace of its rows."""
        return sorted(Path(self.path, TRACE).glob("part-*.parquet"))

    def live_folder(self) -> str:
        assert self.split
        return os.path.join(self.path, LIVE_ROWS)

    def _files(self) -> list[Path]:
        """List the files with live rows; if parts are not split, ended rows are in them too."""
        return sorted(Path(self.live_folder() if self.split else self.path).glob("part-*"))

    def readable_here(self, columns: Iterable[str]) -> bool:
        """True if the live rows are few, and this process reads and writes the columns as Spark
        does.
        """
        files = self._files()
        few = bool(files) and parquet.few(parquet.rows_in(files))
        return few and is_plain(self.schema[name] for name in columns)

    def live_here(self) -> pa.Table:
        """Read the live rows in this process."""
        rows = parquet.table(self._files())
        return rows if self.split else rows.filter(pc.field(PART) == LIVE)

    def ended(self) -> EndedRows:
        """Count and digest the rows that ended, and read them if they are few. Live rows are
        measured where they are kept.
        """
        if not self.split:
            return self.own.read_among(self._files()) or EndedRows(self._totals())
        parts = self.parts() - {LIVE}
        if not parts:
            return EndedRows()
        folders = {n: Path(self.path, f"{PART}={n}") for n in sorted(parts)}
        return self.own.read(folders) or EndedRows(self._totals())

    def _totals(self) -> dict[int, KeyDigest]:
        ended = self.read().where(f"{PART} <> {LIVE}").groupBy(PART)
        if self.own.multiplicity:
            found = ended.agg(*(F.sum(n).alias(n) for n in digest.NAMES))
        else:
            found = ended.agg(*map(F.expr, digest.lanes(self.own.key)))
        return {row[PART]: digest.of_row(row) for row in found.collect()}  # a row per part

    def dropped(self) -> DataFrame:
        """Read key, part, rejections and place of every record that ended in this segment."""
        rows, own = self.read().where(f"{PART} <> {LIVE}"), self.own
        place = F.col(own.place) if own.place else F.lit(None)
        key, reasons = F.col(own.key).alias(KEY), F.col(own.reasons).alias(REJECTIONS)
        count = [own.multiplicity] if own.multiplicity else []
        found = rows.select(key, PART, reasons, place.alias(PLACE), *count)
        if not own.multiplicity:
            return found
        again = F.explode(F.sequence(F.lit(1), F.col(own.multiplicity)))
        return found.withColumn("_tm_copy", again).drop("_tm_copy", own.multiplicity)

    def with_sources(self, place: str) -> Stage:
        """Mark as a stage of groups, each with count and digest of its rows in a struct."""
        return replace(self, sources=tuple(f"{place}.{name}" for name in digest.NAMES))

    def sources_ended(self) -> KeyDigest:
        """Digest the rows of all groups that ended in this segment."""
        if not self.sources:
            return KeyDigest()
        return sum(map(self._behind, self.parts() - {LIVE}), KeyDigest())

    def sources_live(self) -> KeyDigest:
        """Digest the rows of all groups that are still live."""
        return self._behind(LIVE)

    def _behind(self, part: int) -> KeyDigest:
        """Add up the rows of groups, as the groups of a part have them."""
        files = sorted(Path(self.path, f"{PART}={part}").glob("part-*"))
        found = KeyDigest()
        for batch in parquet.batches(files, self.sources):
            rows = pa.Table.from_batches([batch])
            sums = (pc.call_function("sum", [at(rows, name)]).as_py() for name in self.sources)
            found += KeyDigest(*(int(value or 0) for value in sums))
        return found


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
    folder: SegmentFolder,
    columns: Sequence[Column],
    own: EndedColumns = OWN_COLUMNS,
    *,
    part: str = PART,
) -> Stage:
    """Evaluate and write the segment once. `part` has the part of each row."""
    ended = [_part(part)] if flow.tagged or part != PART else []
    rows = flow.with_tags().rows.select(*ended, *columns)
    schema = _write(rows, folder, {}, split=bool(ended), into="" if ended else LIVE_ROWS)
    return _stage(flow, folder, schema, own if flow.placed else replace(own, place=None))


def write_keys(
    flow: Flow, folder: SegmentFolder, columns: Sequence[Column], *, key: str, place: str
) -> Stage:
    """Evaluate and write rows with keys that are the evidence."""
    chosen = [_part(PART), *columns, F.col(REJECTIONS)] if flow.tagged else columns
    rows, into = flow.rows.select(*chosen), "" if flow.tagged else LIVE_ROWS
    schema = _write(rows, folder, EVIDENCE_OPTIONS, split=flow.tagged, into=into)
    own = EndedColumns(key, REJECTIONS, place if flow.placed else None)
    return _stage(flow, folder, schema, own)


def _part(name: str) -> Column:
    return F.expr(f"CAST({name} AS INT) AS {PART}")


def write_merged(flow: Flow, rows: DataFrame, folder: SegmentFolder) -> Stage:
    """Write rows already merged by an aggregation, with count and digest: few, so that all parts
    go to the same files.
    """
    schema = _write(rows, folder, EVIDENCE_OPTIONS, split=False)
    own = EndedColumns(KEY, REJECTIONS, PLACE if flow.placed else None, digest.COUNT)
    return replace(_stage(flow, folder, schema, own), split=False)


def _stage(flow: Flow, folder: SegmentFolder, schema: StructType, own: EndedColumns) -> Stage:
    spark = flow.rows.sparkSession
    stage = Stage(spark, folder.path, schema, own, flow.level, seen=flow.seen)
    if flow.seen and not folder.complete:
        count_warnings(flow.seen, stage.rows_written())
    return stage


def count_warnings(seen: Iterable[RowsSeen], rows: int) -> None:
    """Take over what was counted while so many rows were written."""
    for one in seen:
        one.decide(rows)


def _write(
    rows: DataFrame,
    folder: SegmentFolder,
    options: Mapping[str, str],
    *,
    split: bool = True,
    into: str = "",
) -> StructType:
    """Write the rows: with `split` divided by part, otherwise all of them into one folder."""
    if not folder.complete:
        writer = rows.write.options(**options)
        place = os.path.join(folder.path, into)
        (writer.partitionBy(PART) if split else writer).parquet(place)
        traced = Path(folder.path, f"{PART}={TRACED}")
        if traced.is_dir():
            os.rename(traced, Path(folder.path, TRACE))
    found = written_schema(folder.path) or rows.schema
    return StructType([f for f in found if f.name != PART]).add(PART, IntegerType())


def written_schema(folder: str) -> StructType | None:
    """Return the schema that Spark noted in the files of a folder; None if it wrote none. To ask
    for the schema of the rows is to have their whole plan analyzed once more.
    """
    file = next(Path(folder).rglob("part-*.parquet"), None)
    noted = parquet.noted(file, "org.apache.spark.sql.parquet.row.metadata") if file else None
    return StructType.fromJson(json.loads(noted)) if noted else None


def user_columns(flow: Flow) -> list[Column]:
    """Select the user's columns; NULL on ended rows, which are identified by their key alone."""
    return [flow.live_column(name) for name in flow.columns]
