"""Planted bugs: ways to lose, double or misplace what passes through a seam of the engine."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.planted.here import (
    Here,
    change_here,
    change_line,
    double_here,
    double_line,
    forget_here,
    lose_here,
    lose_line,
)

Rows = Callable[[DataFrame], DataFrame]
Files = Callable[[list[Path]], None]


@dataclass(frozen=True)
class Plant:
    """A bug in one seam, for one plan. `rows` changes what Spark writes or reads there, `here` what
    this process does; `files` what lies in folders whose path holds `at`, after the seam was
    passed. Only with `here` are few rows written by this process."""

    seam: str
    plan: str
    name: str
    rows: Rows | None = None
    files: Files | None = None
    here: Here | None = None
    at: str = ""
    evidence: str = "keys"
    traced: bool = False
    many: bool = False
    """True if kept files are measured as if this process could not read that many rows."""

    @property
    def asset(self) -> str:
        at = re.split("[.:]", self.seam)[-1].strip("_")
        way = ("_here" if self.here else "") + ("_many" if self.many else "")
        return f"{self.plan}_{self.evidence}_{at}{way}_{self.name}"


def having(column: str, change: Rows) -> Rows:
    """Leave rows without the column alone: a seam is passed by rows of several kinds."""
    top = column.partition(".")[0]
    return lambda rows: change(rows) if top in rows.columns else rows


def lose(column: str, value: str) -> Rows:
    return having(column, lambda rows: rows.where(~F.col(column).eqNullSafe(F.lit(value))))


def alone(column: str, change: Rows) -> Rows:
    """Only where rows have no other column."""
    return lambda rows: change(rows) if rows.columns == [column] else rows


def lose_null(rows: DataFrame) -> DataFrame:
    """One row of several that hold nothing."""
    nulls = rows.where(F.expr(f"`{rows.columns[0]}` IS NULL"))
    return rows.exceptAll(nulls.limit(1))


def double(column: str, value: str) -> Rows:
    return having(column, lambda rows: rows.unionAll(rows.where(F.col(column) == value)))


def change(column: str, old: str, new: str) -> Rows:
    def changed(rows: DataFrame) -> DataFrame:
        kind = rows.schema[column].dataType
        other = F.when(F.col(column) == old, F.lit(new).cast(kind))
        return rows.withColumn(column, other.otherwise(F.col(column)))

    return having(column, changed)


def lose_group(value: str) -> Rows:
    return lose("group_key.grp", value)


def move_to_group(key: str, group: str) -> Rows:
    """The key stays, and its group is another."""

    def moved(rows: DataFrame) -> DataFrame:
        there = F.struct(F.lit(group).alias("grp"))
        other = F.when(F.col("source_key") == key, there)
        return rows.withColumn("group_key", other.otherwise(F.col("group_key")))

    return having("group_key", moved)


def lose_file(files: list[Path]) -> None:
    _fullest(files).unlink()


def double_file(files: list[Path]) -> None:
    file = _fullest(files)
    shutil.copyfile(file, file.with_name(file.name.replace("00000", "99999")))


def _fullest(files: list[Path]) -> Path:
    """Spark may write a file without rows."""
    return max(files, key=lambda file: file.stat().st_size)


WORKING, TRACER = "working.working_set:WorkingSet", "working.trace:Tracer"
WRITER = "evidence.write:EvidenceWriter"
LETTERS, FILTERED = f"{WRITER}.write_letters", f"{WRITER}.write_filtered"
STAGE, STAGED = "segment.stage:_write", "segment.stage:Stage"
LIVE, ENDED = f"{STAGED}.live", f"{STAGED}.dropped"
OUT, GROUPS = "segment.evaluate:Evaluation.output", "segment.evaluate:Evaluation.output_groups"
MOVE = "evidence.write:move_files"

RECORDS = [
    Plant(LETTERS, "rows", "letter_lost", lose("source_key", "o-06")),
    Plant(LETTERS, "rows", "letter_doubled", double("source_key", "o-06")),
    Plant(LETTERS, "rows", "second_letter_lost", lose("context.rejection", "2/2")),
    Plant(LETTERS, "rows", "key_changed", change("source_key", "o-06", "o-07")),
    Plant(FILTERED, "rows", "key_lost", lose("source_key", "o-03")),
    Plant(FILTERED, "rows", "key_doubled", double("source_key", "o-03")),
    Plant(FILTERED, "rows", "key_changed", change("source_key", "o-03", "o-04")),
    Plant(STAGE, "rows", "row_lost", lose("id", "o-00")),
    Plant(STAGE, "rows", "row_doubled", double("id", "o-00")),
    Plant(STAGE, "rows", "ended_row_lost", lose("_tm.key", "o-03")),
    Plant(ENDED, "rows", "ended_row_lost", lose("_tm_key", "o-03")),
    Plant(ENDED, "rows", "ended_row_doubled", double("_tm_key", "o-06")),
    Plant(STAGE, "both", "row_lost", lose("id", "m-02")),
    Plant(MOVE, "rows", "output_file_lost", files=lose_file, at="/output"),
    Plant(MOVE, "rows", "output_file_doubled", files=double_file, at="/output"),
    Plant(MOVE, "rows", "letter_file_lost", files=lose_file, at="/errors/"),
    Plant(MOVE, "rows", "filtered_file_lost", files=lose_file, at="/filtered_keys/"),
    Plant(
        "asset.asset_run:AssetRun._place_output", "rows", "file_lost", files=lose_file, at="/output"
    ),
    Plant(STAGE, "ranked", "row_lost", lose("_tm_key", "o-12")),
    Plant(LIVE, "ranked", "row_lost", lose("_tm_key", "o-12")),
    Plant(LIVE, "ranked", "row_doubled", double("_tm_key", "o-12")),
    Plant(FILTERED, "ranked", "key_moved", change("_tm_part", "4", "3")),
]
COMBINED = [
    plant
    for evidence in ("keys", "digest")
    for plant in (
        Plant(GROUPS, "groups", "group_lost", lose("grp", "a"), evidence=evidence),
        Plant(GROUPS, "groups", "group_doubled", double("grp", "a"), evidence=evidence),
        Plant(GROUPS, "groups", "group_changed", change("grp", "a", "x"), evidence=evidence),
        Plant(LETTERS, "groups", "letter_lost", lose("source_key", "o-06"), evidence=evidence),
        Plant(FILTERED, "groups", "key_lost", lose("source_key", "o-03"), evidence=evidence),
        Plant(MOVE, "groups", "output_lost", files=lose_file, at="/output", evidence=evidence),
        Plant(MOVE, "groups", "lost", files=lose_file, at="/reverse_joins/", evidence=evidence),
    )
] + [
    Plant(STAGE, "groups", "record_lost", lose("source_key", "o-00")),
    Plant(STAGE, "groups", "record_doubled", double("source_key", "o-00")),
    Plant(STAGE, "groups", "group_lost", lose_group("a")),
    Plant(STAGE, "added_up", "record_lost", lose("source_key", "o-00")),
    Plant(STAGE, "added_up", "record_doubled", double("source_key", "o-00")),
    Plant(LIVE, "added_up", "record_lost", lose("source_key", "o-00")),
    Plant(LIVE, "groups", "group_lost", lose_group("a")),
    Plant(LIVE, "groups", "record_lost", lose("source_key", "o-00")),
    Plant(LIVE, "groups", "record_doubled", double("source_key", "o-00")),
    Plant(
        f"{WRITER}.keep_keys",
        "groups",
        "file_lost",
        files=lose_file,
        at="/reverse",
    ),
    Plant(STAGE, "groups", "group_lost", lose("grp", "a"), evidence="digest"),
    Plant(LIVE, "groups", "group_lost", lose("grp", "a"), evidence="digest"),
    Plant(
        f"{WRITER}.write_groups",
        "groups",
        "group_lost",
        lose_group("a"),
        evidence="digest",
    ),
    Plant(f"{WRITER}.rewrite_keys", "judged", "key_lost", lose("source_key", "o-00")),
    Plant(f"{WRITER}.rewrite_keys", "judged", "group_lost", lose_group("a")),
    Plant(f"{WRITER}.rewrite_keys", "judged", "key_moved", move_to_group("o-00", "d")),
    Plant(LETTERS, "judged", "group_letter_lost", lose("source_key", "o-01")),
    Plant(FILTERED, "judged", "group_key_lost", lose("source_key", '{"grp":"c"}')),
    Plant(OUT, "judged", "group_lost", lose("grp", "a")),
    Plant(STAGE, "judged", "group_doubled", double("grp", "a")),
    Plant(LIVE, "regrouped", "record_lost", lose("source_key", "o-00")),
    Plant(LIVE, "regrouped", "record_doubled", double("source_key", "o-00")),
    Plant(LIVE, "regrouped", "group_lost", lose("group_key.status", "ok")),
    Plant(LIVE, "unfolded", "record_lost", lose("source_key", "o-00")),
    Plant(LIVE, "unfolded", "record_doubled", double("source_key", "o-00")),
    Plant(STAGE, "regrouped", "group_lost", lose("source_key", '{"grp":"a","status":"ok"}')),
]
MULTIPLIED = [
    Plant(f"{WRITER}.write_children", "children", "lost", lose("child_key", "o-00/1")),
    Plant(
        f"{WRITER}.write_children",
        "children",
        "doubled",
        double("child_key", "o-00/1"),
    ),
    Plant(
        f"{WRITER}.write_children",
        "children",
        "moved",
        change("parent_key", "o-00", "o-01"),
    ),
    Plant(STAGE, "children", "child_lost", lose("_tm.key", "o-00/1")),
    Plant(STAGE, "children", "child_doubled", double("_tm.key", "o-00/1")),
    Plant(LIVE, "children", "parent_lost", lose("_tm_key", "o-00")),
    Plant(LETTERS, "children", "letter_lost", lose("source_key", "o-36/0")),
    Plant(FILTERED, "children", "key_lost", lose("source_key", "o-00/0")),
    Plant(f"{WRITER}.write_children", "matches", "lost", lose("child_key", "o-00/1")),
    Plant(LIVE, "matches", "parent_doubled", double("_tm_key", "o-00")),
    Plant(STAGE, "matches", "child_lost", lose("_tm.key", "o-00/1")),
]
WORKED = [
    plant
    for evidence in ("keys", "digest")
    for plant in (
        Plant(
            f"{WORKING}.finish",
            "worked",
            "row_lost",
            lose("id", "o-00"),
            evidence=evidence,
        ),
        Plant(
            f"{WORKING}.finish",
            "worked",
            "row_doubled",
            double("id", "o-00"),
            evidence=evidence,
        ),
        Plant(
            f"{WORKING}.finish",
            "worked",
            "added_lost",
            lose("_tm.key", '{"grp":"a"}'),
            evidence=evidence,
        ),
        Plant(STAGE, "worked", "row_lost", lose("_tm_key", "o-00"), evidence=evidence),
        Plant(STAGE, "worked", "appended_lost", lose("_tm_key", "m-02"), evidence=evidence),
        Plant(LIVE, "worked", "row_doubled", double("_tm_key", "o-00"), evidence=evidence),
        Plant(
            FILTERED, "worked", "deleted_key_lost", lose("source_key", "o-03"), evidence=evidence
        ),
    )
] + [
    Plant(f"{WRITER}.write_links", "worked", "link_lost", lose("source_key", "o-00")),
    Plant(f"{WRITER}.write_links", "worked", "link_moved", move_to_group("o-00", "d")),
    Plant(f"{WRITER}.write_links", "worked", "group_lost", lose_group("a")),
    Plant(
        f"{WRITER}.write_groups",
        "worked",
        "group_lost",
        lose_group("a"),
        evidence="digest",
    ),
    Plant(f"{WORKING}._output", "worked", "csv_row_lost", lose("id", "o-00")),
    Plant(f"{WORKING}._output", "worked", "row_doubled", double("id", "o-00")),
    Plant(f"{WORKING}._output", "worked", "one_column_lost", alone("status", lose_null)),
    Plant(
        "working.working_run:WorkingRun.keep_outputs",
        "worked",
        "file_lost",
        files=lose_file,
        at="/outputs/",
    ),
]


def of_trace(change: Rows) -> Rows:
    """Change rows that are written for the trace, and no others."""

    def changed(rows: DataFrame) -> DataFrame:
        own = F.col("_tm_part") == -1
        there = rows.where(own) if "_tm_part" in rows.columns else rows.limit(0)
        if "_tm_trace" not in rows.columns and there.isEmpty():
            return rows
        return rows.where(~own).unionAll(change(there))

    return changed


def unmark(column: str) -> Rows:
    """Forget what a step changed in one row."""

    def changed(rows: DataFrame) -> DataFrame:
        top, _, field = column.partition(".")
        one = F.when(F.col("id") == "o-04", 2).otherwise(0).cast("bigint")
        return rows.withColumn(top, F.col(top).withField(field, F.col(column) - one))

    return changed


def one_less(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("id") != "o-04")  # doubling the amount of o-00, zero, changes nothing


def one_more(rows: DataFrame) -> DataFrame:
    return rows.unionAll(rows.limit(1))


TRACED = [
    Plant(STAGE, "worked", "trace_lost", of_trace(one_less), traced=True),
    Plant(STAGE, "worked", "trace_doubled", of_trace(one_more), traced=True),
    Plant(STAGE, "worked", "mark_lost", of_trace(unmark("_tm_trace.marks_0")), traced=True),
    Plant(STAGE, "touched", "trace_lost", of_trace(one_less), traced=True),
    Plant(STAGE, "touched", "trace_doubled", of_trace(one_more), traced=True),
    Plant(STAGE, "touched", "mark_lost", of_trace(unmark("_tm.trace.marks_0")), traced=True),
    Plant(STAGE, "touched", "row_lost", lose("id", "o-00"), traced=True),
    Plant(
        "working.trace:_gather", "worked", "file_lost", files=lose_file, at="/step-10", traced=True
    ),
    Plant(
        f"{TRACER}._commit",
        "worked",
        "file_lost",
        files=lose_file,
        at="/operation_seq=10",
        traced=True,
    ),
    Plant(
        f"{TRACER}._commit",
        "touched",
        "file_doubled",
        files=double_file,
        at="/operation_seq=10",
        traced=True,
    ),
]
WRITE_HERE, READ_HERE = "files.parquet:write", "files.parquet:table"
LINES, ENDED_HERE = "evidence.local_writer:write_lines", "segment.ended:EndedColumns.read"
AMONG = f"{ENDED_HERE}_among"
FEW = [
    Plant(LINES, "rows", "letter_lost", here=lose_line('"source_key":"o-06"')),
    Plant(LINES, "rows", "letter_doubled", here=double_line('"source_key":"o-06"')),
    Plant(LINES, "rows", "second_letter_lost", here=lose_line('"rejection":"2/2"')),
    Plant(LINES, "rows", "key_changed", here=change_line('"o-06"', '"o-07"')),
    Plant(LINES, "children", "letter_lost", here=lose_line('"source_key":"o-36/0"')),
    Plant(WRITE_HERE, "rows", "key_lost", here=lose_here("source_key", "o-03")),
    Plant(WRITE_HERE, "rows", "key_doubled", here=double_here("source_key", "o-03")),
    Plant(WRITE_HERE, "rows", "key_changed", here=change_here("source_key", "o-03", "o-04")),
    Plant(READ_HERE, "rows", "ended_row_lost", here=lose_here("_tm.key", "o-03")),
    Plant(READ_HERE, "rows", "ended_row_doubled", here=double_here("_tm.key", "o-06")),
    Plant(ENDED_HERE, "rows", "ended_row_forgotten", here=forget_here("o-03")),
    Plant(ENDED_HERE, "groups", "rejection_forgotten", here=forget_here("o-06")),
    *(
        replace(plant, evidence="digest")
        for plant in (
            Plant(WRITE_HERE, "groups", "group_lost", here=lose_here("grp", "a")),
            Plant(WRITE_HERE, "groups", "group_doubled", here=double_here("grp", "a")),
            Plant(WRITE_HERE, "groups", "group_changed", here=change_here("grp", "a", "x")),
            Plant(WRITE_HERE, "groups", "kept_lost", here=lose_here("group_key.grp", "a")),
            Plant(WRITE_HERE, "groups", "key_lost", here=lose_here("source_key", "o-03")),
            Plant(AMONG, "groups", "ended_row_forgotten", here=forget_here("o-03")),
            Plant(READ_HERE, "groups", "group_lost", here=lose_here("grp", "a")),
            Plant(READ_HERE, "groups", "ended_row_lost", here=lose_here("_tm_key", "o-03")),
        )
    ),
]
ROUTED, DIVIDED = "asset.split_outputs:write_routed", "asset.split_outputs:write_outputs"


def double_elsewhere(column: str, value: str, output: str) -> Rows:
    """The row is in its own output, and in another."""

    def doubled(rows: DataFrame) -> DataFrame:
        there = F.concat(F.regexp_replace("_tm_output", "_[a-z]+$", ""), F.lit(f"_{output}"))
        return rows.unionAll(rows.where(F.col(column) == value).withColumn("_tm_output", there))

    return having(column, doubled)


def astray(column: str, value: str) -> Rows:
    """The row is written, to an output that there is not."""

    def moved(rows: DataFrame) -> DataFrame:
        to = F.when(F.col(column) == value, F.lit("nowhere")).otherwise(F.col("_tm_output"))
        return rows.withColumn("_tm_output", to)

    return having(column, moved)


SPLIT = [
    Plant(ROUTED, "divided", "row_in_two", double_elsewhere("id", "o-00", "rest")),
    Plant(ROUTED, "divided", "row_in_none", astray("id", "o-00")),
    Plant(ROUTED, "divided", "row_lost", lose("id", "o-00")),
    Plant(ROUTED, "divided", "row_doubled", double("id", "o-00")),
    Plant(DIVIDED, "divided", "file_lost", files=lose_file, at="/outputs/"),
    Plant(DIVIDED, "divided", "file_doubled", files=double_file, at="/outputs/"),
    Plant(ROUTED, "parted", "group_in_none", astray("grp", "a")),
    Plant(ROUTED, "parted", "group_in_two", double_elsewhere("grp", "a", "cd")),
]
MANY = [replace(plant, many=True) for plant in COMBINED if plant.evidence == "keys"]
PLANTS = [*RECORDS, *COMBINED, *MANY, *MULTIPLIED, *WORKED, *TRACED, *FEW, *SPLIT]

ELSEWHERE = {
    "evidence.append:new_rows": "rows of a version are counted again after they were written",
    "files.run_folder:RunFolder._take_over": "whole segments, compared with records",
    "files.run_folder:RunFolder.put": "one rename of a folder whose files are hashed in its ledger",
    "files.run_folder:RunFolder.set_aside": "one rename of a whole folder that no version names",
    "files.run_folder:write_json": "see write_text",
    "files.run_folder:write_text": "JSON and text of ours, hashed in the ledger or the seal",
    "segment.segment_records:SegmentRecords._write": "hashes; files that differ are made again",
    "asset.asset_run:AssetRun._explained": "the text of an error that Spark raised",
    "source.door_memory:DoorMemory.keep": "digests that the gate compares with the rows",
    "warehouse.warehouse:_link": "a second name for a file; readers compare its sha256",
}
"""Seams that no plant is needed for, and why."""
