"""Spans: the values that one column had during a segment, all of one type.

A span keeps the value before each change, and the value at the end. The value after a change is the
one before the next change of the row in the same span, or the value at the end: it is kept once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql.types import DataType

from tallyman.engine.expressions.column_names import quoted


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that a step may change; `number` is its place among the columns of the step."""

    seq: int
    column: str
    number: int
    new: bool = False
    """True if the column did not exist before."""

    @property
    def flag(self) -> str:
        """The column that is true on rows that the step changed here."""
        return f"_tm_d{self.seq}_{self.number}"

    @property
    def old(self) -> str:
        """The column with the value before, on the same rows."""
        return f"_tm_b{self.seq}_{self.number}"

    def columns(self) -> tuple[str, ...]:
        return (self.flag,) if self.new else (self.flag, self.old)


@dataclass(frozen=True, slots=True)
class Span:
    kind: DataType
    holder: str | None
    """The column that has the values now; None if it was dropped or got another type."""
    start: str | None = None
    """Its name when the segment began; None if it was added since."""
    kept: str | None = None
    """Our column with its last value, if there is no holder any more."""
    changes: tuple[ColumnChange, ...] = ()

    @property
    def last(self) -> str:
        """The value at the end of the segment, in SQL."""
        if self.holder is not None:
            return quoted(self.holder)
        assert self.kept is not None
        return self.kept

    @property
    def first(self) -> str:
        """The value when the segment began: the one before the first change of the row."""
        return reduce(
            lambda later, c: f"CASE WHEN {c.flag} THEN {c.old} ELSE {later} END",
            reversed([change for change in self.changes if not change.new]),
            self.last,
        )

    def columns(self) -> tuple[str, ...]:
        """List our columns that rows carry for it."""
        own = (self.kept,) if self.kept else ()
        return (*own, *(name for change in self.changes for name in change.columns()))


def begun(columns: Sequence[str], kinds: Mapping[str, DataType]) -> tuple[Span, ...]:
    """Begin a span for each column, when a segment begins."""
    return tuple(Span(kinds[name], name, name) for name in columns)


@dataclass(frozen=True, slots=True)
class FollowedSpans:
    """Spans after a step. `changes` are the step's own; `kept` maps our new columns to the columns
    whose values before the step they take over.
    """

    spans: tuple[Span, ...]
    changes: tuple[ColumnChange, ...]
    kept: Mapping[str, str]


def follow(
    spans: Sequence[Span],
    seq: int,
    assigned: Mapping[str, str | None],
    renamed: Mapping[str, str],
    after: Mapping[str, DataType],
    hidden: Callable[[str], bool],
) -> FollowedSpans:
    """Follow each column through a step. `assigned` maps the columns that the step assigns to the
    columns they were; `after` has the types after it, of columns that remain. A span ends with its
    type, and where a name that is `hidden` becomes one that is not.
    """
    changes = {
        was or name: ColumnChange(seq, name, n, new=was is None)
        for n, (name, was) in enumerate(assigned.items())
    }
    found: list[Span] = []
    kept: dict[str, str] = {}
    for place, span in enumerate(spans):
        holder = span.holder
        if holder is None:
            found.append(span)
            continue
        change = changes.get(holder)
        name = change.column if change else renamed.get(holder, holder)
        if after.get(name) == span.kind and hidden(name) == hidden(holder):
            added = (change,) if change else ()
            found.append(replace(span, holder=name, changes=(*span.changes, *added)))
            changes.pop(holder, None)
        else:
            taken = f"_tm_k{seq}_{place}"
            kept[taken] = holder
            found.append(replace(span, holder=None, kept=taken))
            if change is None and name in after:
                found.append(Span(after[name], name))
    added_now = (Span(after[c.column], c.column, changes=(c,)) for c in changes.values())
    every = tuple(
        ColumnChange(seq, n, i, new=w is None) for i, (n, w) in enumerate(assigned.items())
    )
    return FollowedSpans((*found, *added_now), every, kept)
