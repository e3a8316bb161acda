"""Writing the rows of a working set: each segment once, with the trace of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import functions as F

from tallyman.engine.expressions.column_names import (
    ERROR,
    KEY,
    LIVE,
    PART,
    PLACE,
    REJECTIONS,
    SYSTEM,
    literal,
)
from tallyman.engine.expressions.columns import col
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.segment.fate_book import Book
from tallyman.engine.segment.segment import Flow
from tallyman.engine.segment.stage import IN_SYSTEM, SegmentFolder, Stage, write
from tallyman.engine.working import spans
from tallyman.engine.working.changes import SEEN, Member, original
from tallyman.engine.working.row_ids import RowIds
from tallyman.engine.working.trace_layout import mark
from tallyman.engine.working.trace_rows import COPY, IS_OWN, TraceRows, marks

ROW = "_tm_trace"
"""The column of the trace in a segment that other segments follow."""
IN_OUTPUT = "trace"
"""The field of our column in an output; it has values only in the files of the trace."""


@dataclass(frozen=True, slots=True)
class Traced:
    """Everything that the trace of a segment depends on, besides its rows."""

    ids: RowIds
    hidden: Redaction
    book: Book
    steps: Mapping[str, int]
    """The numbers of all steps, by id."""
    seqs: Sequence[int]
    """The steps of the segment."""

    def rows(self, member: Member, at: str) -> TraceRows:
        ended, ending = _ended(self.book, self.steps)
        return TraceRows(
            member=member,
            ids=self.ids,
            hidden=self.hidden,
            ended=ended,
            ending=[seq for seq in self.seqs if seq in ending],
            created=bool(member.born) and not member.stages,
            at=at,
        )


def store(member: Member, folder: SegmentFolder, traced: Traced | None) -> Member:
    """Evaluate and write a segment that other segments follow."""
    flow = member.flow.with_tags()
    own = (KEY, REJECTIONS, *flow.place())
    if traced is None:
        stage = write(flow, folder, [*map(col, flow.columns), *map(F.col, (*own, SEEN))])
        return _reopened(member, stage)
    trace = traced.rows(replace(member, flow=flow), ROW)
    flow = replace(flow, rows=trace.prepared(flow.rows))
    values = {
        **{name: name for name in own},
        SEEN: trace.seen(),
        **{marks(word): marks(word) for word in range(trace.words)},
        **_originals(member),
    }
    columns = [
        *trace.user_columns(output=False),
        *(f"{_own(value)} AS {name}" for name, value in values.items()),
        f"{trace.column()} AS {ROW}",
    ]
    stage = write(flow, folder, list(map(F.expr, columns)), part=COPY)
    return _reopened(replace(member, layout=trace.layout()), stage)


def store_output(member: Member, folder: SegmentFolder, traced: Traced) -> Member:
    """Evaluate and write the last segment: its live rows are the output, as they are."""
    flow = member.flow.with_tags()
    trace = traced.rows(replace(member, flow=flow), f"{SYSTEM}.{IN_OUTPUT}")
    flow = replace(flow, rows=trace.prepared(flow.rows))
    columns = [*trace.user_columns(output=True), f"{_system(flow, trace)} AS {SYSTEM}"]
    stage = write(flow, folder, list(map(F.expr, columns)), IN_SYSTEM, part=COPY)
    return replace(member, stages=(*member.stages, stage), layout=trace.layout(), stored=True)


def _own(value: str) -> str:
    """Write a value that copies for the trace do not have."""
    return f"CASE WHEN {IS_OWN} THEN {value} END"


def _system(flow: Flow, trace: TraceRows) -> str:
    """Write our column of an output: the key if no column has it, why a row ended, its marks."""
    known = flow.key_columns is not None
    ended = f"{IS_OWN} AND {PART} <> {LIVE}"
    fields = {
        "key": f"CASE WHEN {ended} THEN {KEY} END" if known else _own(KEY),
        "rejections": _own(REJECTIONS),
        **({"place": _own(PLACE)} if flow.placed else {}),
        **{mark(word): _own(marks(word)) for word in range(trace.words)},
        IN_OUTPUT: trace.column(),
    }
    system = f"named_struct({', '.join(f'{literal(n)}, {v}' for n, v in fields.items())})"
    always = flow.placed or not known
    needed = "true" if always else f"{PART} <> {LIVE} OR {trace.touched}"
    return f"CASE WHEN {needed} THEN {system} END"


def _originals(member: Member) -> dict[str, str]:
    """Write the loaded columns that were dropped, as they were loaded, by our name."""
    found: dict[str, str] = {}
    for place, (start, holder) in enumerate(zip(member.starts, member.holders, strict=True)):
        if holder is None:
            span = next((s for s in member.spans if start and s.start == start), None)
            found[original(place)] = span.first if span else original(place)
    return found


def _reopened(member: Member, stage: Stage) -> Member:
    """Go on with the live rows of a segment that was written."""
    dropped = [original(n) for n, holder in enumerate(member.holders) if holder is None]
    own = [KEY, *member.flow.place(), SEEN, *dropped]
    rows = stage.live().select(*map(col, member.flow.columns), *own)
    flow = replace(member.flow, rows=rows, tagged=False, beside=(SEEN, *dropped), seen=())
    kinds = {field.name: field.dataType for field in stage.schema}
    return replace(
        member,
        flow=flow,
        starts=member.holders,
        spans=spans.begun(member.flow.columns, kinds) if member.layout else (),
        stages=(*member.stages, stage),
        shown=(*member.shown, {name: name for name in member.flow.columns}),
        stored=True,
    )


def _ended(book: Book, steps: Mapping[str, int]) -> tuple[str, set[int]]:
    """Find the step at which a row ended, by its part, or by the first rule it broke, in SQL;
    return also the steps that end rows.
    """
    cases, ending = list[str](), set[int]()
    for part in book.parts.values():
        if part.asked_as in steps:
            ending.add(steps[part.asked_as])
            cases.append(f"WHEN {PART} = {part.id} THEN {steps[part.asked_as]}")
    broken = f"element_at({REJECTIONS}, 1).rule"
    for number, rule in enumerate(book.rules):
        if rule.step in steps:
            ending.add(steps[rule.step])
            here = f"{PART} = {ERROR} AND {broken} = {number}"
            cases.append(f"WHEN {here} THEN {steps[rule.step]}")
    return f"CASE {' '.join(cases)} END" if cases else "NULL", ending
