"""Layouts of trace files: how rows of a file are found, and what they say.

A trace of format 2 has a row for each row of the data that a segment touched, see `SegmentRows`. In
format 1, which runs of earlier versions have, each file holds the records of one kind and one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol, get_args
from uuid import UUID

from tallyman.domain.history.trace import DELETED, ChangeType, TraceStep, Values
from tallyman.engine.files import duck
from tallyman.engine.files.duck import text as literal

Kind = Literal["baseline", "created", "updated", "deleted"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Row = Mapping[str, Any]
Sides = tuple[ChangeType, Values | None, Values | None]
"""A kind of change, and the values before and after it."""


class RecordLayout(Protocol):
    """The meaning of the rows of a file. Conditions are SQL; None is one that never holds."""

    @property
    def order(self) -> str:
        """The expression by which rows are in the order of their ids."""
        ...

    def is_row(self, row_id: UUID) -> str | None: ...
    def is_after(self, row_id: UUID) -> str | None: ...
    def row_id(self, row: Row) -> UUID: ...

    def condition(self, kind: Kind, seq: int) -> str:
        """True for rows with a record of that kind and step."""
        ...

    def holds(self, kind: Kind, seq: int, row: Row) -> bool: ...
    def sides(self, kind: Kind, step: TraceStep, row: Row) -> Sides: ...

    def columns(self, kind: Kind, step: TraceStep) -> tuple[str, ...]:
        """The columns of a row as it was loaded or created."""
        ...

    def value(self, kind: Kind, name: str) -> str:
        """The SQL for such a column."""
        ...


class StepRecords:
    """Format 1: a file has the records of one kind and step."""

    order = "row_id"

    def __init__(self, loaded: tuple[str, ...]) -> None:
        self.loaded = loaded

    def is_row(self, row_id: UUID) -> str | None:
        return f"row_id = {literal(str(row_id))}"

    def is_after(self, row_id: UUID) -> str | None:
        return f"row_id > {literal(str(row_id))}"

    def row_id(self, row: Row) -> UUID:
        return UUID(row["row_id"])

    def condition(self, kind: Kind, seq: int) -> str:
        return "true"

    def holds(self, kind: Kind, seq: int, row: Row) -> bool:
        return True

    def columns(self, kind: Kind, step: TraceStep) -> tuple[str, ...]:
        return self.loaded if kind == "baseline" else step.columns

    def value(self, kind: Kind, name: str) -> str:
        return f"struct_extract(after, {literal(name)})"

    def sides(self, kind: Kind, step: TraceStep, row: Row) -> Sides:
        """Read a record: an update is a mask and two structs, a deletion only an id."""
        if kind == "deleted":
            return ChangeType.DELETED, {DELETED: False}, None
        if kind != "updated":
            columns = self.columns(kind, step)
            return ChangeType.CREATED, None, {name: row["after"][name] for name in columns}
        mask, assigned = row["changed"], step.assigned
        if len(mask) != len(assigned) or set(mask) - {"0", "1"} or "1" not in mask:
            raise ValueError(f"changed {mask!r} of the columns {', '.join(assigned)}")
        changed = [name for name, bit in zip(assigned, mask, strict=True) if bit == "1"]
        before, after = (
            {name: row[side][name] for name in changed} for side in ("before", "after")
        )
        return ChangeType.UPDATED, before, after


def quoted(path: list[str]) -> str:
    """Write a column, or a field within one, in SQL."""
    return ".".join(map(duck.quoted, path))


def read(row: Row, path: list[str]) -> Any:
    value: Any = row
    for name in path:
        value = value[name]
    return value


def numbered(marks: Iterator[int], word: int) -> dict[int, int]:
    """Combine marks to one number for each word that has some of them."""
    found: dict[int, int] = {}
    for mark in marks:
        found[mark // word] = found.get(mark // word, 0) | 1 << mark % word
    return found
