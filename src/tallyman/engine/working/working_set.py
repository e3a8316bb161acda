"""A working set: rows changed in place, step by step, each with exactly one fate at the end.

Its members are rows that entered together: loaded rows, and rows that a step created. Each member
is a flow of its own with the columns of all members, so that records and rows made of them are
never counted together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import count
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tallyman.domain.account.fate import Evidence, Fate
from tallyman.domain.definition.frame import OUTPUT_FORMATS, Frame
from tallyman.domain.definition.step_facts import LOADING, Step
from tallyman.domain.definition.working_step import Aggregate, Append, Delete, Output, Update
from tallyman.domain.history.trace import DELETED, ROW_ID, UPDATED_AT
from tallyman.engine.expressions.column_names import KEY, LIVE, PART, SYSTEM, quoted
from tallyman.engine.expressions.columns import col, to_sql
from tallyman.engine.plan import in_place, plain
from tallyman.engine.plan.check_working import RESERVED
from tallyman.engine.segment import segment, tags
from tallyman.engine.segment.cuts import Opened, group_of, source
from tallyman.engine.segment.evaluate import Evaluation, place_of
from tallyman.engine.segment.fate_book import Book, LookedUp
from tallyman.engine.segment.group_key import GROUP_KEY, group_text
from tallyman.engine.segment.segment import Flow
from tallyman.engine.segment.stage import SegmentFolder, Stage
from tallyman.engine.spark import digest
from tallyman.engine.spark.failure import failure_of
from tallyman.engine.working import changes, store
from tallyman.engine.working.changes import SEEN, Member
from tallyman.engine.working.distinct_rows import DistinctRows
from tallyman.engine.working.row_ids import RowIds
from tallyman.engine.working.spans import Span
from tallyman.engine.working.store import Traced
from tallyman.engine.working.trace import Tracer
from tallyman.errors import StepFailed

SOURCE_STEP = "source_step"


def is_file(path: str) -> bool:
    """True if an output is one file, not a folder of files."""
    return os.path.splitext(path)[1].lower() in OUTPUT_FORMATS


@dataclass(frozen=True, slots=True)
class WrittenOutput:
    """The files of an output step, and the number of rows they must have."""

    step: Output
    folder: Path
    rows: int


@dataclass
class WorkingSet:
    """The rows and steps. `names` maps the Frames of steps to ids, `numbers` to seqs."""

    evaluation: Evaluation
    nodes: Sequence[Frame]
    names: Mapping[Frame, str]
    numbers: Mapping[Frame, int]
    ids: RowIds
    tracer: Tracer | None
    distinct: DistinctRows
    folder: str
    members: list[Member] = field(default_factory=list)
    outputs: dict[str, WrittenOutput] = field(default_factory=dict)
    """The written outputs, by the ids of their steps."""
    _open: list[int] = field(default_factory=list)
    """Steps applied since the rows were last written; `_after` has the rows after each of them."""
    _after: list[list[Member]] = field(default_factory=list)
    _deletes: set[str] = field(default_factory=set)

    @property
    def steps(self) -> dict[str, int]:
        return {self.names[node]: self.numbers[node] for node in self.nodes}

    @property
    def book(self) -> Book:
        return self.evaluation.book

    def load(self, flow: Flow) -> None:
        traced = self.tracer is not None
        plain_rows = replace(flow.with_tags(), beside=())
        plain_rows = plain_rows.choose([col(n) for n in flow.columns], dict.fromkeys(flow.columns))
        self.members = [Member.begin(plain_rows, LOADING, 0, None, traced=traced)]

    @property
    def in_one_piece(self) -> bool:
        """True if the rows were never written yet and can be the output unchanged."""
        alone = len(self.members) == 1 and not self.members[0].stages
        return alone and self.tracer is None

    @property
    def placed(self) -> bool:
        """True if rows of some member carry the place of their record."""
        return any(member.flow.placed for member in self.members)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.members[0].flow.columns

    def schema(self) -> StructType:
        return self.members[0].flow.rows.select(*map(col, self.columns)).schema

    def do(self, node: Frame) -> None:
        try:
            self._do(node)
        except PySparkException as error:
            if "cancel" in str(error).lower():
                raise
            raise self._failed(error, self.numbers[node]) from error

    def _failed(self, error: PySparkException, seq: int) -> StepFailed:
        found = failure_of(error, self.book.redaction.reason)
        step = next((name for name, number in self.steps.items() if number == seq), None)
        return StepFailed(self.ids.asset, found.reason, seq, step, found.advice)

    def _do(self, node: Frame) -> None:
        step, seq, name = node.step, self.numbers[node], self.names[node]
        assert step is not None
        match step:
            case Aggregate():
                self._aggregate(step, seq, name)
            case Append():
                self._append(step, seq, name)
            case Output():
                self._output(step, name)
                if self.tracer is not None:
                    self.tracer.segment([seq])
            case _:
                self._open.append(seq)
                if isinstance(step, Delete):
                    self._deletes.add(name)
                apply = partial(self._change, step, node, name)
                hidden = self.book.redaction if self.tracer is not None else None
                self.members = [
                    changes.carry(member, step, seq, apply, hidden) for member in self.members
                ]
                self._after.append(self.members)
        self.evaluation.reached = name

    # ---- row by row ----------------------------------------------------------------------

    def _change(self, step: Step, node: Frame, name: str, flow: Flow) -> Flow:
        match step:
            case Update():
                return self._update(flow, step, name)
            case Delete():
                return self._delete(flow, step, name)
        return self.evaluation.step(flow, node, name)

    def _update(self, flow: Flow, step: Update, name: str) -> Flow:
        where = "true" if step.where is None else to_sql(step.where, flow.columns)
        chosen = f"CASE WHEN {tags.IS_LIVE} THEN coalesce({where}, false) ELSE false END"
        for lookup in step.join:
            reference = self.evaluation.reference(lookup.other)
            rows = in_place.look_up(flow.rows, lookup, reference, flow.columns)
            flow = replace(flow, rows=rows, beside=(*flow.beside, lookup.alias))
            looked_up = LookedUp(name, lookup)
            flow = segment.count_unmatched(flow, looked_up, chosen, self.book)
            flow = replace(flow, rows=flow.rows.drop(plain.MATCHES))
        rows = in_place.update(flow.rows, step, flow.columns, tags.IS_LIVE)
        aliases = [lookup.alias for lookup in step.join]
        new = [n for n in in_place.set_names(step, flow.columns) if n not in flow.columns]
        beside = tuple(n for n in flow.beside if n not in aliases)
        flow = replace(flow, rows=rows, columns=(*flow.columns, *new), beside=beside)
        written = [n for n, _ in step.set]
        return flow.without_key(written).computed(in_place.set_names(step, flow.columns))

    def _delete(self, flow: Flow, step: Delete, name: str) -> Flow:
        text = "true" if step.where is None else step.where
        gone = "true" if step.where is None else to_sql(step.where, flow.columns)
        why = f"Records deleted where {text}" if step.where is not None else "Records deleted"
        ended = self.book.part(Fate.FILTERED, name, why, f"NOT ({text})", flow.level)
        return segment.end_unless(flow, f"NOT {tags.surely(gone)}", ended)

    # ---- where rows are added or written -------------------------------------------------

    def store(self) -> None:
        """Write the changed rows, and the trace of the changes."""
        changed = [number for number, member in enumerate(self.members) if not member.stored]
        self.members = list(self.members)
        for number in changed:
            try:
                self.members[number] = self._stored(self.members[number])
            except PySparkException as error:
                self._blame(error)
                raise
        if self.tracer is not None and self._open:
            self.evaluation.checks.check()
            self.tracer.segment(self._open, [self.members[number] for number in changed])
        self._open.clear()
        self._after.clear()

    def _blame(self, error: PySparkException) -> None:
        """Find the step of a segment that failed, as all are one job; write the trace before it."""
        if self.tracer is None or "cancel" in str(error).lower():
            return
        good: list[Member] = []
        for number, members in enumerate(self._after):
            try:
                folders = (SegmentFolder(f"{self.folder}/blame-{number}-{n}") for n in count())
                traced = self._traced(self._open[: number + 1])
                stored = [store.store(m, next(folders), traced) for m in members if not m.stored]
            except PySparkException as found:
                self.tracer.segment(self._open[:number], good)
                raise self._failed(found, self._open[number]) from found
            good = stored

    def _traced(self, seqs: Sequence[int]) -> Traced | None:
        if self.tracer is None:
            return None
        return Traced(self.ids, self.book.redaction, self.book, self.steps, tuple(seqs))

    def _stored(self, member: Member) -> Member:
        folder = self.evaluation.next_folder()
        stored = store.store(member, folder, self._traced(self._open))
        self.evaluation.staged_as(stored.stages[-1])
        if self.tracer is not None and len(stored.stages) == 1:
            self.distinct.check(stored)
        return stored

    def _live(self) -> DataFrame:
        """Unite the live rows of all members, each with the step that created it."""
        parts = [
            m.flow.rows.select(
                *map(col, self.columns),
                KEY,
                F.lit(m.created_by).cast("string").alias(SOURCE_STEP),
                *place_of(m.flow, self.placed),
            )
            for m in self.members
        ]
        return reduce(DataFrame.unionAll, parts)

    def _aggregate(self, step: Aggregate, seq: int, name: str) -> None:
        self.store()
        schema = self.schema()
        matched = in_place.matching(self._live(), step.where)
        added, widened = in_place.groups(matched, step, self.columns, schema)
        level = len(self.evaluation.opened) + 1
        hiding = self.book.redaction
        shown = [hiding.shown(name, quoted(name)) for name in step.by]
        rows = added.withColumn(KEY, F.expr(group_text(step.by, shown)))
        flow = Flow(rows, tuple(widened.names), None, level=level, after_group=True)
        self._widen(widened)
        member = self._join(flow, seq, name)
        kinds = {f.name: f.dataType for f in schema}
        group = F.expr(group_of(step, kinds, hiding)).alias(GROUP_KEY)
        why = f"Rows added, one for each {', '.join(step.by)}"
        links = matched.select(group, *source(placed=self.placed), SOURCE_STEP)
        opened = partial(Opened, member.stages[0], name, Fate.AGGREGATED, "row", why, matched=links)
        if self.evaluation.evidence is Evidence.KEYS:
            self.evaluation.opened.append(opened(links=links))
        else:
            found = matched.groupBy(group).agg(*map(F.expr, digest.lanes(KEY)))
            self.evaluation.opened.append(opened(groups=found))

    def _append(self, step: Append, seq: int, name: str) -> None:
        self.store()
        flow = self.evaluation.flow(step.other).with_tags()
        schema = self.schema()
        rows = in_place.incoming(flow.rows, schema, flow.carried())
        rows = in_place.aligned(rows, schema, flow.carried(), F.col(PART) == LIVE)
        flow = replace(flow, rows=rows, columns=tuple(schema.names), key_columns=None, known={})
        self._join(flow, seq, name)

    def _join(self, flow: Flow, seq: int, name: str) -> Member:
        """Add a member; write its rows at once, because their current state is their first
        state.
        """
        ordinal = 1 + [self.numbers[node] for node in self.nodes].index(seq)
        traced = self.tracer is not None
        member = Member.begin(flow.with_tags(), seq, ordinal, name, traced=traced)
        member = self._stored(member)
        self.members.append(member)
        if self.tracer is not None:
            self.evaluation.checks.check()
            self.tracer.segment([seq], [member])
        return member

    def _widen(self, schema: StructType) -> None:
        for number, member in enumerate(self.members):
            flow = member.flow
            rows = in_place.aligned(flow.rows, schema, flow.carried())
            added = [f for f in schema if f.name not in flow.columns]
            spans = tuple(Span(f.dataType, f.name) for f in added if member.spans)
            flow = replace(flow, rows=rows, columns=tuple(schema.names))
            self.members[number] = replace(member, flow=flow, spans=(*member.spans, *spans))

    # ---- writing -------------------------------------------------------------------------

    def _output(self, step: Output, name: str) -> None:
        self.store()
        parts = [self._shown(m, m.flow.rows, deleted=False) for m in self.members]
        if step.include_deleted:
            parts += [rows for m in self.members for rows in self._deleted(m)]
        rows = reduce(DataFrame.unionAll, parts)
        wanted = step.columns or (*self.columns, *RESERVED)
        place = os.path.join(self.folder, "outputs", name)
        writer = rows.select(*map(col, wanted))
        if is_file(step.path):
            writer = writer.coalesce(1)
        options = {"header": "true", "escape": '"'} if step.format == "csv" else {}
        if step.format == "csv" and len(wanted) == 1:
            options["nullValue"] = '""'  # Spark omits an empty line, and with it the row
        if step.format == "json":
            options["ignoreNullFields"] = "false"
        writer.write.format(step.format).options(**options).save(place)
        self.outputs[name] = WrittenOutput(step, Path(place), self._rows_of(step))

    def _rows_of(self, step: Output) -> int:
        """Count the rows that an output must have, member by member."""
        count = sum(member.flow.rows.count() for member in self.members)
        if step.include_deleted and (parts := self._deleting()):
            stages = [stage for member in self.members for stage in member.stages]
            count += sum(s.read().where(F.col(PART).isin(*parts)).count() for s in stages)
        return count

    def _shown(self, member: Member, rows: DataFrame, *, deleted: bool) -> DataFrame:
        """Add the system columns to rows."""
        moment = F.lit(self.ids.run.timestamp).cast("timestamp")
        changed = F.lit(True) if deleted else F.col(SEEN)
        system = [
            F.expr(self.ids.of(member, KEY)).alias(ROW_ID),
            F.lit(deleted).alias(DELETED),
            F.when(changed, moment).alias(UPDATED_AT),
        ]
        return in_place.aligned(rows, self.schema(), [*system])  # type: ignore[list-item]

    def _deleting(self) -> list[int]:
        return [p.id for p in self.book.parts.values() if p.asked_as in self._deletes]

    def _deleted(self, member: Member) -> list[DataFrame]:
        parts = self._deleting()
        if not parts:
            return []
        kinds = {f.name: f.dataType for f in self.schema()}
        found = []
        for stage, names in zip(member.stages, member.shown, strict=True):
            there = {
                old: new for old, new in names.items() if stage.schema[old].dataType == kinds[new]
            }
            rows = stage.read().where(F.col(PART).isin(*parts))
            found.append(rows.select(KEY, *(col(old).alias(new) for old, new in there.items())))
        return [self._shown(member, rows, deleted=True) for rows in found]

    @property
    def can_be_output(self) -> bool:
        """True if the segment that is still to be written has all rows, and can be the output."""
        return len(self.members) == 1 and not self.members[0].stored

    def finish_in_one(self) -> Stage:
        """Write the last segment with its trace; its live rows are the output."""
        assert self.tracer is not None
        [member] = self.members
        traced = self._traced(self._open)
        assert traced is not None
        try:
            stored = store.store_output(member, self.evaluation.next_folder(), traced)
        except PySparkException as error:
            self._blame(error)
            raise
        stage = stored.stages[-1]
        if len(stored.stages) == 1:
            self.distinct.check(stored)
        self.evaluation.output(stored.flow, stage)
        self.evaluation.checks.check()
        self.tracer.segment(self._open, [stored])
        return stage

    def finish(self, folder: str) -> StructType:
        """Write the rows that passed, each member separately; return the schema of all."""
        self.store()
        schema = StructType()
        for number, member in enumerate(self.members):
            flow = member.flow
            known = flow.key_columns if not member.created_by else None
            own = F.lit(None).cast("string") if known else F.col(KEY)
            # Rows made of records have a ledger of their own and belong to no record.
            opened = self.evaluation.opened[flow.level - 1] if flow.level else None
            step = opened.step_id if opened else None
            system = F.struct(
                own.alias("key"),
                F.lit(None).cast(f"array<{tags.REJECTION}>").alias("rejections"),
                F.lit(step).cast("string").alias("step"),
                *(column.alias("place") for column in place_of(flow, self.placed)),
            )
            marked = F.when(F.lit(flow.placed or not known), system).alias(SYSTEM)
            place = os.path.join(folder, f"{number:03d}")
            rows = flow.rows.select(*map(col, flow.columns), marked)
            rows.write.parquet(place)
            schema = rows.schema
        self.evaluation.output_key = self.members[0].flow.key_columns or ()
        return schema
