"""Changes carried with their rows: what each step did to each row, decided where it happens.

A step adds a column of its own to every row it changed. So a segment is evaluated once and written
once, and the trace of all its steps is read from what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
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
from tallyman.engine.expressions.column_names import ERROR, KEY, LIVE, PART, REJECTIONS
from tallyman.engine.expressions.columns import col
from tallyman.engine.plan.in_place import assigned_by, may_assign, renamed_by, spelled
from tallyman.engine.segment.fate_book import Book
from tallyman.engine.segment.segment import Flow
from tallyman.engine.segment.stage import SegmentFolder, Stage, write

SEEN = "_tm_seen"
"""True if the row was changed before its segment began."""
FIRST = "_tm_first"
"""The step of the segment that is the first of all steps to touch the row."""
END = "_tm_end"
"""The step at which the row ended."""


def event(seq: int) -> str:
    return f"_tm_e{seq}"


def original(place: int) -> str:
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
    holders: tuple[str | None, ...] = ()
    """The column that holds each of them now; None if it was dropped and is carried separately."""
    assigned: frozenset[str] = frozenset()
    """Columns that got other values since the rows were last written."""
    changes: tuple[int, ...] = ()
    """Steps since then that marked rows as changed."""
    stages: tuple[Stage, ...] = ()
    shown: tuple[Mapping[str, str], ...] = ()
    """The current names of the columns of each stage, without those dropped since."""
    written: tuple[int, ...] = ()
    """The steps with marks in the last of the stages."""
    stored: bool = False
    """True if nothing was done to the rows since they were last written."""

    @classmethod
    def begin(
        cls, flow: Flow, born: int, ordinal: int, created_by: str | None, *, traced: bool
    ) -> Member:
        rows = flow.rows.withColumn(SEEN, F.lit(False))
        flow = replace(flow, rows=rows, beside=(*flow.beside, SEEN))
        loaded = flow.columns if traced and not born else ()
        kinds = tuple(rows.schema[name].dataType for name in loaded)
        member = cls(flow, born, ordinal, created_by, loaded, kinds, loaded)
        return member.with_originals()

    def with_originals(self) -> Member:
        """Carry a copy of each loaded column; a column that no step touches is never read twice."""
        copies = {original(n): col(h) for n, h in enumerate(self.holders) if h is not None}
        names = tuple(original(n) for n in range(len(self.holders)))
        rows = self.flow.rows.withColumns(copies) if copies else self.flow.rows
        beside = tuple(dict.fromkeys((*self.flow.beside, *names)))
        return replace(self, flow=replace(self.flow, rows=rows, beside=beside))

    def with_flow(self, flow: Flow) -> Member:
        return replace(self, flow=flow, stored=False)


def carry(
    member: Member, step: Step, seq: int, apply: Callable[[Flow], Flow], *, traced: bool
) -> Member:
    """Apply the step, and mark on each row what the step changed."""
    flow = member.flow.with_tags()
    before = {f.name: f.dataType for f in flow.rows.schema}
    olds = {f"_tm_b{n}": name for n, name in enumerate(may_assign(step, flow.columns))}
    rows = flow.rows.withColumns({c: col(n) for c, n in olds.items()}) if olds else flow.rows
    done = apply(replace(flow, rows=rows, beside=(*flow.beside, *olds)))
    assigned = assigned_by(step, flow.columns, done.columns)
    moved = member.with_flow(replace(done, beside=flow.beside))
    moved = _followed(moved, renamed_by(step, flow.columns), assigned)
    if not assigned:
        return _selected(moved)
    after = {f.name: f.dataType for f in done.rows.schema}
    copies = {name: copy for copy, name in olds.items()}
    pairs: list[tuple[str, Column, bool]] = []
    for name in assigned:
        old = spelled(name, flow.columns)
        value = F.lit(None).cast(after[name]) if old is None else F.col(copies[old])
        pairs.append((name, value, old is None or _alike(before[old], after[name])))
    differs = {
        f"_tm_d{n}": ~_same(old, col(name), after[name], alike)
        for n, (name, old, alike) in enumerate(pairs)
    }
    any_differs = reduce(Column.__or__, map(F.col, differs)) & (F.col(PART) == LIVE)
    rows = _with_ended(
        done.rows,
        step,
        {
            name: F.col(copies[old])
            for name in assigned
            if (old := spelled(name, flow.columns)) and before[old] == after[name]
        },
    ).withColumns(differs)
    if traced:
        mask = F.concat(*(F.when(F.col(d), "1").otherwise("0") for d in differs))
        kept = list(zip(differs, pairs, strict=True))
        was = F.struct(*(F.when(F.col(d), old).alias(name) for d, (name, old, _) in kept))
        now = F.struct(*(F.when(F.col(d), col(name)).alias(name) for d, (name, _, _) in kept))
        mark = F.struct(mask.alias("changed"), was.alias("before"), now.alias("after"))
        rows = rows.withColumn(event(seq), F.when(any_differs, mark))
        beside = (*moved.flow.beside, event(seq))
        moved = replace(moved, changes=(*moved.changes, seq))
    else:
        rows = rows.withColumn(SEEN, F.col(SEEN) | any_differs)
        beside = moved.flow.beside
    flow = replace(moved.flow, rows=rows, beside=beside)
    return _selected(moved.with_flow(flow))


def _with_ended(rows: DataFrame, step: Step, olds: Mapping[str, Column]) -> DataFrame:
    """Restore the values of rows that had already ended; a step in place skips these by itself."""
    if step.in_place or not olds:
        return rows
    return rows.withColumns(
        {name: F.when(F.col(PART) == LIVE, col(name)).otherwise(old) for name, old in olds.items()}
    )


def _selected(member: Member) -> Member:
    """Select only the columns that the flow carries on."""
    flow = member.flow
    rows = flow.rows.select(*map(col, flow.columns), *flow.carried())
    return member.with_flow(replace(flow, rows=rows))


def _followed(member: Member, renamed: Mapping[str, str], assigned: Sequence[str]) -> Member:
    """Track where the loaded columns are after the step."""
    there = set(member.flow.columns)
    names = [None if h is None else renamed.get(h, h) for h in member.holders]
    holders = tuple(name if name in there else None for name in names)
    touched = {renamed.get(name, name) for name in member.assigned} | set(assigned)
    shown = tuple(
        {old: renamed.get(n, n) for old, n in names.items() if renamed.get(n, n) in there}
        for names in member.shown
    )
    return replace(member, holders=holders, assigned=frozenset(touched), shown=shown)


def _same(old: Column, new: Column, kind: DataType, alike: bool) -> Column:
    if not alike:  # a value of another type differs, even if its text is equal
        return old.isNull() & new.isNull()
    return old.eqNullSafe(new) if _comparable(kind) else _text(old).eqNullSafe(_text(new))


def _alike(old: DataType, new: DataType) -> bool:
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale
    return old == new or (isinstance(old, IntegralType) and isinstance(new, IntegralType))


def _text(value: Column) -> Column:
    return F.to_json(F.struct(value.alias("v")))


def _comparable(kind: DataType) -> bool:
    if isinstance(kind, (MapType, VariantType)):
        return False
    if isinstance(kind, ArrayType):
        return _comparable(kind.elementType)
    if isinstance(kind, StructType):
        return all(_comparable(field.dataType) for field in kind)
    return True


# ---- writing and reading back --------------------------------------------------------------


def store(member: Member, folder: SegmentFolder, book: Book, steps: Mapping[str, int]) -> Member:
    """Evaluate and write the segment once: rows, changes, and earlier values."""
    flow = member.flow.with_tags()
    ended = _ended(book, steps)
    touched: Column = F.coalesce(
        *(F.when(F.col(event(seq)).isNotNull(), seq) for seq in member.changes), ended
    )
    first = F.when(~F.col(SEEN), touched)
    rows = flow.rows.withColumns({FIRST: first, END: ended})
    olds = [
        F.when(~F.col(SEEN) & _needed(holder, member), F.col(original(n))).alias(original(n))
        for n, holder in enumerate(member.holders)
        if holder is None or holder in member.assigned
    ]
    seen = (F.col(SEEN) | F.col(FIRST).isNotNull()).alias(SEEN)
    columns = [
        *map(col, flow.columns),
        *map(F.col, (KEY, REJECTIONS, *flow.place(), FIRST, END)),
        seen,
        *(F.col(event(seq)) for seq in member.changes),
        *olds,
    ]
    flow = replace(flow, rows=rows)
    stage = write(flow, folder, columns)
    return _reopened(member, stage)


def _needed(holder: str | None, member: Member) -> Column:
    """True where the original is needed: always for a dropped column, otherwise on touched rows."""
    return F.lit(True) if holder is None else F.col(FIRST).isNotNull()


def _reopened(member: Member, stage: Stage) -> Member:
    dropped = [original(n) for n, holder in enumerate(member.holders) if holder is None]
    own = [KEY, *member.flow.place(), SEEN, *dropped]
    rows = stage.live().select(*map(col, member.flow.columns), *own)
    beside = (SEEN, *dropped)
    flow = replace(member.flow, rows=rows, tagged=False, beside=beside, seen=())
    again = replace(
        member,
        flow=flow,
        assigned=frozenset(),
        changes=(),
        stages=(*member.stages, stage),
        shown=(*member.shown, {name: name for name in member.flow.columns}),
        written=member.changes,
    )
    return replace(again.with_originals(), stored=True)


def _ended(book: Book, steps: Mapping[str, int]) -> Column:
    """Find the step at which a row ended, by its part, or by the first rule it broke."""
    found = F.lit(None).cast("int")
    for part in book.parts.values():
        if part.asked_as in steps:
            found = F.when(F.col(PART) == part.id, steps[part.asked_as]).otherwise(found)
    broken = F.element_at(REJECTIONS, 1).getField("rule")
    for number, rule in enumerate(book.rules):
        if rule.step in steps:
            here = (F.col(PART) == ERROR) & (broken == number)
            found = F.when(here, steps[rule.step]).otherwise(found)
    return found


def baseline(member: Member) -> DataFrame:
    """Read rows as they were loaded, if the last segment was the first to touch them."""
    stage = member.stages[-1]
    there = set(stage.schema.names)
    holders = zip(member.loaded, member.holders, member.kinds, strict=True)
    state = [
        (F.col(original(n)) if original(n) in there else col(holder or name)).cast(kind).alias(name)
        for n, (name, holder, kind) in enumerate(holders)
    ]
    rows = stage.read().where(F.col(FIRST).isNotNull())
    return rows.select(FIRST, KEY, F.struct(*state).alias("after"))
