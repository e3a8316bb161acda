"""The evaluation of an asset's plan: segments joined by cuts, each evaluated and written once."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tallyman import faults
from tallyman.domain.account.fate import Evidence, Fate
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step import (
    Drop,
    DropDuplicates,
    Expect,
    Explode,
    Filter,
    GroupBy,
    Join,
    Rename,
    Select,
    Split,
    Union,
    Warn,
)
from tallyman.domain.definition.step_facts import Step
from tallyman.engine.expressions.column_names import (
    KEY,
    PART,
    PLACE,
    REJECTIONS,
    SOURCES,
    SYSTEM,
    quoted,
)
from tallyman.engine.expressions.columns import col
from tallyman.engine.files import parquet
from tallyman.engine.observer import SILENT, Observer
from tallyman.engine.plan import in_place, plain
from tallyman.engine.segment import cuts, segment
from tallyman.engine.segment.admit import admit
from tallyman.engine.segment.cuts import Opened
from tallyman.engine.segment.fate_book import Book
from tallyman.engine.segment.segment import Flow
from tallyman.engine.segment.segment_records import SegmentRecords
from tallyman.engine.segment.stage import (
    IN_SYSTEM,
    SegmentFolder,
    Stage,
    count_warnings,
    user_columns,
    write,
    written_schema,
)
from tallyman.engine.segment.stage_checks import StageChecks
from tallyman.engine.segment.watched import united
from tallyman.engine.source.source import Input
from tallyman.faults import Point


@dataclass
class Evaluation:
    """The evaluation of one asset in one run. `staged` lists what each segment wrote, in order."""

    book: Book
    inputs: Mapping[str, Input]
    step_ids: Mapping[Frame, str]
    evidence: Evidence
    records: SegmentRecords
    checks: StageChecks
    reads: Mapping[str, Collection[str]]
    references: Mapping[str, DataFrame]
    """The rows of the inputs that are looked up, by name."""
    observer: Observer = SILENT
    staged: list[Stage] = field(default_factory=list)
    opened: list[Opened] = field(default_factory=list)
    output_key: tuple[str, ...] = ()
    grouped: Flow | None = None
    """The groups of the last groupBy, before any later step."""
    reached: str | None = None
    """The last step with a decided effect on every row."""

    def next_folder(self) -> SegmentFolder:
        return self.records.next(len(self.staged) + 1)

    def staged_as(self, stage: Stage, *, last: bool = False) -> Stage:
        faults.reach(Point.SEGMENT_WRITTEN)
        if not last:  # the files of the last segment are moved at once: they are the output
            self.records.add(stage, self.reached)
        self.report_reached()
        # Check the previous segment first: if that halts, this one must not count.
        self.checks.written(stage)
        self.staged.append(stage)
        return stage

    def report_reached(self) -> None:
        if self.reached:
            self.observer.step(self.reached)

    def flow(self, frame: Frame) -> Flow:
        if frame.step is None or frame.parent is None:
            source = self.inputs[frame.input]
            return admit(source, self.book, self.reads[frame.input])
        flow = self.flow(frame.parent)
        name = self.step_ids[frame]
        done = self.step(flow, frame, name)
        self.reached = name
        return done

    def step(self, flow: Flow, frame: Frame, name: str) -> Flow:
        match frame.step:
            case Select() as step:
                return segment.select(self._past_window(flow, step), step)
            case Drop() as step:
                return segment.drop(flow, step)
            case Rename() as step:
                return segment.rename(flow, step)
            case Step(only_columns=True) as step:
                return segment.with_columns(self._past_window(flow, step), step)
            case Filter() as step:
                return segment.filter_(flow, step, name, self.book)
            case Split() as step if not step.rejects:
                return flow  # its last output takes every row
            case Expect() as step:
                return segment.expect(flow, step, name, self.book)
            case Warn() as step:
                return segment.warn(flow, step, name, self.book)
            case Join() as step:
                return self._join(flow, step, name)
            case GroupBy() as step:
                return self._group(flow, step, name)
            case Explode() as step:
                return self._explode(flow, step, name)
            case Union() as step:
                return self._union(flow, self.flow(step.other), step)
            case DropDuplicates() as step:
                return cuts.first_of_each(self._live_only(flow), step, name, self.book)
        raise AssertionError(frame.step)

    def _past_window(self, flow: Flow, step: Step) -> Flow:
        return self._live_only(flow) if step.looks_at_other_rows else flow

    def _live_only(self, flow: Flow) -> Flow:
        """Keep only live rows: rows that look at each other must not see those that ended."""
        if not flow.tagged:
            return flow
        stage, rest = cuts.checkpoint(flow, self.next_folder())
        self.staged_as(stage)
        return rest

    def reference(self, other: Frame) -> DataFrame:
        return in_place.evaluate(other, self.references)

    def _join(self, flow: Flow, step: Join, name: str) -> Flow:
        reference = self.reference(step.other)
        if step.fanout == "error":
            return segment.join(flow, step, reference, name, self.book)
        looked_up = segment.join(flow, step, reference, name, self.book)
        only = replace(looked_up, columns=flow.columns)  # plus the number of matches per row
        stage, parents = cuts.checkpoint(only, self.next_folder())
        children, links = cuts.expanded(flow, step, parents, reference)
        why = f"Records expanded by their matches in {step.other.input}"
        makes = F.coalesce(F.col(plain.MATCHES), F.lit(1))
        self.open(Opened(stage, name, Fate.EXPLODED, "child", why, children=links, makes=makes))
        return replace(children, level=len(self.opened))

    def _explode(self, flow: Flow, step: Explode, name: str) -> Flow:
        whole = cuts.childless_filtered(flow, step, name, self.book)
        stage, parents = cuts.checkpoint(whole, self.next_folder())
        children, links = cuts.exploded(flow, step, parents)
        why = f"Records exploded by {step.column}"
        # An outer explode makes one child of an array that is empty or NULL.
        makes = F.greatest(F.coalesce(F.size(col(step.column)), F.lit(0)), F.lit(1))
        self.open(Opened(stage, name, Fate.EXPLODED, "child", why, children=links, makes=makes))
        return replace(children, level=len(self.opened))

    def _group(self, flow: Flow, step: GroupBy, name: str) -> Flow:
        why = f"Records aggregated by {', '.join(step.by) or 'all'}"
        hiding = self.book.redaction
        if self.evidence is Evidence.KEYS:
            stage, output = cuts.group_keys(flow, step, self.next_folder())
            links, whole = cuts.hidden_links(stage, step, hiding), not step.by
            cut = Opened(stage, name, Fate.AGGREGATED, "group", why, links=links, whole=whole)
            self.open(cut)
        else:
            stage, output, groups = cuts.group_digests(flow, step, self.next_folder())
            groups = cuts.hidden_groups(groups, step, hiding)
            by = None if hiding.covers_any(step.by) else tuple(step.by)
            self.open(Opened(stage, name, Fate.AGGREGATED, "group", why, groups=groups, by=by))
        level, digests = len(self.opened), self.evidence is Evidence.KEYS
        self.grouped = cuts.group_flow(output, step, level, hiding, digests=digests)
        return self.grouped

    def open(self, opened: Opened) -> None:
        self.staged_as(opened.stage)
        self.opened.append(opened)

    def _union(self, left: Flow, right: Flow, step: Union) -> Flow:
        if left.seen or right.seen:
            left, right = segment.counted(left), segment.counted(right)
        placed = left.placed or right.placed
        sides = [
            side.rows.select(
                *map(col, side.columns), KEY, PART, REJECTIONS, *place_of(side, placed)
            )
            for side in (left.with_tags(), right.with_tags())
        ]
        rows = sides[0].unionByName(sides[1]) if step.by_name else sides[0].union(sides[1])
        key = left.key_columns if _same_key(left, right, step) else None
        met = left.columns if step.by_name else right.columns
        unread = {
            n: left.lacks([n]) | right.lacks([m]) for n, m in zip(left.columns, met, strict=True)
        }
        both = replace(left, rows=rows, tagged=True, key_columns=key, placed=placed, known={})
        rules = max(left.rules, right.rules)
        seen = united(left.seen, right.seen)
        return replace(both, unread=unread, rules=rules, seen=seen)

    def output_groups(self, flow: Flow, folder: str) -> StructType:
        """Write groups that no later step touched; their columns identify them."""
        opened = self.opened[-1]
        as_written = flow is self.grouped and opened.groups is not None
        if as_written and opened.stage.readable_here(flow.columns):
            rows = opened.stage.live_here().select(flow.columns)
            parquet.write(rows, Path(folder, "part-00000.parquet"))
            return StructType([opened.stage.schema[name] for name in flow.columns])
        sources = (
            [F.struct(F.struct(*kept).alias(SOURCES)).alias(SYSTEM)]
            if (kept := flow.sources())
            else []
        )
        rows = flow.rows.select(*map(quoted, flow.columns), *sources)
        rows.write.parquet(folder)
        if flow.seen:
            count_warnings(flow.seen, parquet.rows_in(sorted(Path(folder).glob("part-*"))))
        return written_schema(folder) or rows.schema

    def output(self, flow: Flow, written: Stage | None = None) -> Stage:
        """Write the rows that passed, with their keys, unless a stage has them already."""
        stage = written or self._output(flow)
        self.output_key = flow.key_columns or ()
        self.staged_as(stage, last=True)
        if not os.path.isdir(stage.live_folder()):
            # If no row passed there is no file yet; readers still need its columns.
            stage.live().write.parquet(stage.live_folder())
        return stage

    def _output(self, flow: Flow) -> Stage:
        known = flow.key_columns is not None
        own = F.when(F.col(PART) != 0, F.col(KEY)) if known else F.col(KEY)
        place = [F.col(PLACE).alias("place")] if flow.placed else []
        sources = [F.struct(*kept).alias(SOURCES)] if (kept := flow.sources()) else []
        reasons = F.col(REJECTIONS).alias("rejections")
        system = F.struct(own.alias("key"), reasons, *place, *sources)
        needed = F.lit(flow.placed or not known) | (F.col(PART) != 0)
        system = F.when(needed, system).alias(SYSTEM)
        columns = [*user_columns(flow), system]
        stage = write(flow, self.next_folder(), columns, IN_SYSTEM)
        return stage.with_sources(f"{SYSTEM}.{SOURCES}") if sources else stage


def _same_key(left: Flow, right: Flow, step: Union) -> bool:
    """True if the key columns of both sides meet in the union, with equal types."""
    if left.key_columns is None or left.key_columns != right.key_columns:
        return False
    kinds = [side.types(left.key_columns) for side in (left, right)]
    return all(
        kinds[0][name] == kinds[1][name]
        and (step.by_name or left.columns.index(name) == right.columns.index(name))
        for name in left.key_columns
    )


def place_of(side: Flow, wanted: bool) -> list[Column]:
    """Return the place column if wanted; NULL for a side with keys that distinguish its records."""
    if not wanted:
        return []
    return [F.col(PLACE) if side.placed else F.lit(None).cast("string").alias(PLACE)]
