"""The layout of trace files: one row for each row that the steps of a segment touched.

It holds the row at the end of the segment, a mark for each column that a step changed, and the
value before each of these changes. A value after a change is the one before the next change of the
same column, or the one at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args
from uuid import UUID

from tallyman.domain.history.trace import DELETED, ChangeType, TraceStep, Values
from tallyman.engine.working.trace_layout import LOW, WORD, mark

Kind = Literal["baseline", "created", "updated", "deleted"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Row = Mapping[str, Any]
Sides = tuple[ChangeType, Values | None, Values | None]
"""A kind of change, and the values before and after it."""

SEEN = 0
"""The mark of rows that an earlier segment touched."""


@dataclass(frozen=True, slots=True)
class MarkedChange:
    """A column that a step may have changed: its mark, and where the value before is."""

    step: int
    column: str
    mark: int
    old: list[str] | None
    """None if there was no such column before."""


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """The values of a column during the segment: at the end, and before each change."""

    last: list[str]
    changes: tuple[MarkedChange, ...]


@dataclass(frozen=True, slots=True)
class FirstValue:
    """A column of a row as it was loaded or created: the start of a column, or a value apart."""

    name: str
    column: int | None
    apart: list[str] | None


class SegmentRows:
    """The layout that the engine wrote next to the files of a segment.

    Conditions are SQL for rows of the files; None is one that never holds.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        """Raise KeyError, TypeError or ValueError if the content is not a layout."""
        self.row: list[str] = list(map(str, content["row"]))
        self.begins = int(content["row_id_begins"], 16)
        self.words = int(content["words"])
        self.spans = tuple(_column(found) for found in content["columns"])
        self.ended = {int(found["step"]): int(found["mark"]) for found in content["ended"]}
        loaded, created = content["loaded"], content["created"]
        self.loaded = None if loaded is None else tuple(map(_value, loaded))
        self.created: int | None = int(created["step"]) if created else None
        self.values = tuple(map(_value, created["values"])) if created else ()
        places = [v.column for v in (*(self.loaded or ()), *self.values) if v.column is not None]
        if any(not 0 <= place < len(self.spans) for place in places):
            raise ValueError("it names a column that is not listed")
        if any(not 0 <= mark < self.words * WORD for mark in self._marks()):
            raise ValueError(f"it has marks beyond {self.words * WORD}")

    # ---- rows and their ids --------------------------------------------------------------

    @property
    def order(self) -> str:
        """The expression by which rows are in the order of their ids."""
        return quoted([*self.row, "id"])

    def is_row(self, row_id: UUID) -> str | None:
        begins, low = row_id.int >> 64, row_id.int & (1 << LOW) - 1
        right = begins == self.begins and self._uuid(low) == row_id
        return f"{self.order} = {low}" if right else None

    def is_after(self, row_id: UUID) -> str | None:
        begins = row_id.int >> 64
        if begins != self.begins:
            return "true" if begins < self.begins else None
        if row_id.int & (1 << 64) - 1 < 2 << LOW:
            return "true"
        return f"{self.order} > {min(row_id.int & (1 << 64) - 1, 3 << LOW) - (2 << LOW)}"

    def row_id(self, row: Row) -> UUID:
        return self._uuid(int(read(row, [*self.row, "id"])))

    def _uuid(self, low: int) -> UUID:
        if not 0 <= low < 1 << LOW:
            raise ValueError(f"row id {low} is not a number of {LOW} bits")
        return UUID(int=self.begins << 64 | 2 << LOW | low)

    # ---- records of a kind and step ------------------------------------------------------

    def kinds(self, seq: int) -> Iterator[Kind]:
        """List the kinds of records that a step may have here."""
        if self.created == seq:
            yield "created"
            return
        if self.loaded is not None and any(self._marks(seq)):
            yield "baseline"
        if any(change.step == seq for change in self._changes()):
            yield "updated"
        if seq in self.ended:
            yield "deleted"

    def condition(self, kind: Kind, seq: int) -> str:
        """True for rows with a record of that kind and step."""
        match kind:
            case "created":
                return "true"
            case "deleted":
                return self._any(iter([self.ended[seq]]))
            case "updated":
                return self._any(c.mark for c in self._changes() if c.step == seq)
        before = (mark for step in self._steps() if step < seq for mark in self._marks(step))
        return f"{self._any(self._marks(seq))} AND NOT {self._any(iter([SEEN, *before]))}"

    def holds(self, kind: Kind, seq: int, row: Row) -> bool:
        match kind:
            case "created":
                return True
            case "deleted":
                return self._is(self.ended[seq], row)
            case "updated":
                return any(self._is(c.mark, row) for c in self._changes() if c.step == seq)
        touched = [s for s in self._steps() if any(self._is(m, row) for m in self._marks(s))]
        return not self._is(SEEN, row) and bool(touched) and touched[0] == seq

    def columns(self, kind: Kind) -> tuple[str, ...]:
        """The columns of a row as it was loaded or created."""
        return tuple(value.name for value in self._states(kind))

    def sides(self, kind: Kind, step: TraceStep, row: Row) -> Sides:
        match kind:
            case "deleted":
                return ChangeType.DELETED, {DELETED: False}, None
            case "updated":
                return self._updated(step, row)
        after = {value.name: self._first(value, row) for value in self._states(kind)}
        return ChangeType.CREATED, None, after

    def _updated(self, step: TraceStep, row: Row) -> Sides:
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        for column in self.spans:
            for place, change in enumerate(column.changes):
                if change.step == step.seq and self._is(change.mark, row):
                    before[change.column] = None if change.old is None else read(row, change.old)
                    after[change.column] = self._next(column, place + 1, row)
        order = [name for name in step.assigned if name in after]
        if len(order) != len(after):
            raise ValueError(f"columns {', '.join(after)} of step {step.seq}")
        return (
            ChangeType.UPDATED,
            {name: before[name] for name in order},
            {name: after[name] for name in order},
        )

    def _first(self, value: FirstValue, row: Row) -> Any:
        if value.column is None:
            assert value.apart is not None
            return read(row, value.apart)
        return self._next(self.spans[value.column], 0, row)

    def _next(self, column: ColumnValues, place: int, row: Row) -> Any:
        """Find the value before the next change from a place on, or the last one."""
        for change in column.changes[place:]:
            if change.old is not None and self._is(change.mark, row):
                return read(row, change.old)
        return read(row, column.last)

    def value(self, kind: Kind, name: str) -> str:
        """The SQL for such a column."""
        [value] = [value for value in self._states(kind) if value.name == name]
        if value.column is None:
            assert value.apart is not None
            return quoted(value.apart)
        column = self.spans[value.column]
        cases = " ".join(
            f"WHEN {self._any(iter([change.mark]))} THEN {quoted(change.old)}"
            for change in column.changes
            if change.old is not None
        )
        return f"CASE {cases} ELSE {quoted(column.last)} END" if cases else quoted(column.last)

    def _states(self, kind: Kind) -> tuple[FirstValue, ...]:
        return (self.loaded or ()) if kind == "baseline" else self.values

    # ---- marks ---------------------------------------------------------------------------

    def _changes(self) -> Iterator[MarkedChange]:
        return (change for column in self.spans for change in column.changes)

    def _steps(self) -> list[int]:
        return sorted({*self.ended, *(change.step for change in self._changes())})

    def _marks(self, seq: int | None = None) -> Iterator[int]:
        """List the marks of a step, or of all."""
        yield from (c.mark for c in self._changes() if seq in (None, c.step))
        yield from (mark for step, mark in self.ended.items() if seq in (None, step))

    def _is(self, mark: int, row: Row) -> bool:
        return bool(read(row, self._word(mark // WORD)) >> mark % WORD & 1)

    def _any(self, marks: Iterator[int]) -> str:
        """Write the condition that a row has one of the marks."""
        found = [
            f"({quoted(self._word(word))} & {bits}) > 0" for word, bits in _numbered(marks).items()
        ]
        return f"({' OR '.join(found)})" if found else "false"

    def _word(self, word: int) -> list[str]:
        return [*self.row, mark(word)]


def _column(found: Mapping[str, Any]) -> ColumnValues:
    changes = tuple(
        MarkedChange(int(c["step"]), str(c["column"]), int(c["mark"]), c["old"])
        for c in found["changes"]
    )
    return ColumnValues(list(found["last"]), changes)


def _value(found: Mapping[str, Any]) -> FirstValue:
    column = found.get("column")
    if column is None and not isinstance(found["value"], list):
        raise ValueError(f"no place of {found['name']}")
    return FirstValue(str(found["name"]), column, found.get("value"))


def quoted(path: list[str]) -> str:
    """Write a column, or a field within one, in SQL."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in path)


def read(row: Row, path: list[str]) -> Any:
    value: Any = row
    for name in path:
        value = value[name]
    return value


def _numbered(marks: Iterator[int]) -> dict[int, int]:
    """Combine marks to one number for each word that has some of them."""
    found: dict[int, int] = {}
    for each in marks:
        found[each // WORD] = found.get(each // WORD, 0) | 1 << each % WORD
    return found
