"""Changes carried with their rows: what each step did to each row, decided where it happens.

A step marks every row it changed, and keeps the values before. So a segment is evaluated once and
written once, and the trace of all its steps is written with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    IntegralType,
    MapType,
    StructType,
    VariantType,
)

from tallyman.domain.definition.step_facts import Step
from tallyman.engine.expressions.column_names import quoted
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.plan.in_place import assigned_by, may_assign, renamed_by, spelled
from tallyman.engine.segment.segment import Flow
from tallyman.engine.segment.stage import Stage
from tallyman.engine.segment.tags import IS_LIVE
from tallyman.engine.working import spans
from tallyman.engine.working.spans import ColumnChange, FollowedSpans, Span
from tallyman.engine.working.trace_layout import TraceLayout

SEEN = "_tm_seen"
"""True if the row was changed before its segment began."""


def original(place: int) -> str:
    """Our column with a loaded column as it was loaded, if it was dropped since."""
    return f"_tm_o{place}"


@dataclass(frozen=True, slots=True)
class Member:
    """Rows that entered the working set together: loaded, or created by one step."""

    flow: Flow
    born: int
    """The step that created them; LOADING for rows that were read."""
    ordinal: int
    created_by: str | None
    loaded: tuple[str, ...] = ()
    """The columns when the working set began; empty for created rows."""
    kinds: tuple[DataType, ...] = ()
    starts: tuple[str | None, ...] = ()
    """The column that held each of them when the segment began; None if it was dropped before."""
    holders: tuple[str | None, ...] = ()
    """The column that holds each of them now; None if it was dropped."""
    spans: tuple[Span, ...] = ()
    """The columns since the rows were last written; empty without a trace."""
    stages: tuple[Stage, ...] = ()
    shown: tuple[Mapping[str, str], ...] = ()
    """The current names of the columns of each stage, without those dropped since."""
    layout: TraceLayout | None = None
    """Where the last of the stages has the trace of its rows."""
    stored: bool = False
    """True if nothing was done to the rows since they were last written."""

    @classmethod
    def begin(
        cls, flow: Flow, born: int, ordinal: int, created_by: str | None, *, traced: bool
    ) -> Member:
        rows = flow.rows.withColumn(SEEN, F.lit(False))
        flow = replace(flow, rows=rows, beside=(*flow.beside, SEEN))
        member = cls(flow, born, ordinal, created_by)
        if not traced:
            return member
        fields = {f.name: f.dataType for f in rows.schema}
        loaded = () if born else flow.columns
        return replace(
            member,
            loaded=loaded,
            kinds=tuple(fields[name] for name in loaded),
            starts=loaded,
            holders=loaded,
            spans=spans.begun(flow.columns, fields),
        )

    @property
    def changes(self) -> list[ColumnChange]:
        """List the columns that steps may have changed since the rows were last written."""
        return [change for span in self.spans for change in span.changes]

    def with_flow(self, flow: Flow) -> Member:
        return replace(self, flow=flow, stored=False)


def carry(
    member: Member, step: Step, seq: int, apply: Callable[[Flow], Flow], hidden: Redaction | None
) -> Member:
    """Apply the step, and mark on each row what the step changed. `hidden` is None without a
    trace.
    """
    flow = member.flow.with_tags()
    before = {f.name: f.dataType for f in flow.rows.schema}
    asked = (*may_assign(step, flow.columns), *(n for n in step.drops() if n in flow.columns))
    olds = {name: f"_tm_w{n}" for n, name in enumerate(dict.fromkeys(asked))}
    rows = flow.rows.selectExpr("*", *(f"{quoted(n)} AS {c}" for n, c in olds.items()))
    done = apply(replace(flow, rows=rows, beside=(*flow.beside, *olds.values())))
    assigned = assigned_by(step, flow.columns, done.columns)
    moved = member.with_flow(replace(done, beside=flow.beside))
    renamed = renamed_by(step, flow.columns)
    moved = _followed(moved, renamed)
    if not assigned and (hidden is None or set(done.columns) == set(flow.columns)):
        return _selected(moved)
    after = {f.name: f.dataType for f in done.rows.schema}
    was = {name: spelled(name, flow.columns) for name in assigned}
    same = {n: olds[o] for n, o in was.items() if o and before[o] == after[n]}
    moved = moved.with_flow(replace(moved.flow, rows=_with_ended(moved.flow.rows, step, same)))
    pairs = [
        (quoted(n), olds[o] if o else None, after[n], not o or _alike(before[o], after[n]))
        for n, o in was.items()
    ]
    if hidden is None:
        return _selected(_seen(moved, pairs))
    there = {name: after[name] for name in done.columns}
    found = spans.follow(member.spans, seq, was, renamed, there, hidden.covers)
    return _selected(_marked(moved, found, olds, pairs))


Pair = tuple[str, str | None, DataType, bool]
"""A value after a step and the value before, in SQL, its type, and whether the two can be compared.
"""


def _seen(member: Member, pairs: Sequence[Pair]) -> Member:
    """Mark rows as changed, without a trace."""
    changed = " OR ".join(map(_differs, pairs))
    rows = member.flow.rows.withColumn(SEEN, F.expr(f"{SEEN} OR ({changed}) AND {IS_LIVE}"))
    return member.with_flow(replace(member.flow, rows=rows))


def _marked(
    member: Member, found: FollowedSpans, olds: Mapping[str, str], pairs: Sequence[Pair]
) -> Member:
    """Mark which columns of a row changed, and keep the values before."""
    flow, both = member.flow, list(zip(found.changes, pairs, strict=True))
    flags = {change.flag: f"{_differs(pair)} AND {IS_LIVE}" for change, pair in both}
    values = {c.old: f"CASE WHEN {c.flag} THEN {p[1]} END" for c, p in both if p[1] is not None}
    kept = {own: olds[name] for own, name in found.kept.items()}
    rows = flow.rows
    for added in (flags, values | kept):
        if added:
            rows = rows.selectExpr("*", *(f"{value} AS {name}" for name, value in added.items()))
    own = (*values, *kept, *flags)
    flow = replace(flow, rows=rows, beside=(*flow.beside, *own))
    return replace(member, flow=flow, spans=found.spans, stored=False)


def _with_ended(rows: DataFrame, step: Step, olds: Mapping[str, str]) -> DataFrame:
    """Restore the values of rows that had already ended; a step in place skips these by itself."""
    if step.in_place or not olds:
        return rows
    return rows.withColumns(
        {
            name: F.expr(f"CASE WHEN {IS_LIVE} THEN {quoted(name)} ELSE {old} END")
            for name, old in olds.items()
        }
    )


def _selected(member: Member) -> Member:
    """Select only the columns that the flow carries on."""
    flow = member.flow
    rows = flow.rows.selectExpr(*map(quoted, flow.columns), *flow.carried())
    return member.with_flow(replace(flow, rows=rows))


def _followed(member: Member, renamed: Mapping[str, str]) -> Member:
    """Track where the loaded columns are after the step."""
    there = set(member.flow.columns)
    names = [None if h is None else renamed.get(h, h) for h in member.holders]
    holders = tuple(name if name in there else None for name in names)
    shown = tuple(
        {old: renamed.get(n, n) for old, n in names.items() if renamed.get(n, n) in there}
        for names in member.shown
    )
    return replace(member, holders=holders, shown=shown)


def _differs(pair: Pair) -> str:
    new, old, kind, alike = pair
    if old is None:
        return f"{new} IS NOT NULL"
    if not alike:  # a value of another type differs, even if its text is equal
        return f"NOT ({old} IS NULL AND {new} IS NULL)"
    both = (old, new) if _comparable(kind) else (_text(old), _text(new))
    return f"NOT ({' <=> '.join(both)})"


def _alike(old: DataType, new: DataType) -> bool:
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale
    return old == new or (isinstance(old, IntegralType) and isinstance(new, IntegralType))


def _text(value: str) -> str:
    return f"to_json(named_struct('v', {value}))"


def _comparable(kind: DataType) -> bool:
    if isinstance(kind, (MapType, VariantType)):
        return False
    if isinstance(kind, ArrayType):
        return _comparable(kind.elementType)
    if isinstance(kind, StructType):
        return all(_comparable(field.dataType) for field in kind)
    return True
