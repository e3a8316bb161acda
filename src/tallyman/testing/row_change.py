"""Expected changes of rows, compared with a trace: every mismatch has a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tallyman.domain.history.trace import ChangeType
from tallyman.errors import UsageError

MismatchKind = Literal["missing_event", "extra_event", "diff_mismatch"]


@dataclass(frozen=True, slots=True)
class RowChange:
    """The change that one step made to one row. In a trace `row` is the whole row after the step;
    as an expectation it has the columns that identify the row, and without `diff` any will do."""

    step: int
    change: str
    row: Mapping[str, Any]
    diff: Mapping[str, tuple[Any, Any]] | None = None
    """Each column that changed, as (old, new)."""

    def __post_init__(self) -> None:
        if self.change not in tuple(ChangeType):
            raise UsageError(f"a change is {', '.join(ChangeType)}, not {self.change!r}")

    def names(self, other: RowChange) -> bool:
        """True if `other` is a change by the same step, of the same kind, of the row meant here."""
        if (self.step, self.change) != (other.step, other.change):
            return False
        return all(name in other.row and other.row[name] == v for name, v in self.row.items())

    def expects(self, other: RowChange) -> bool:
        return self.names(other) and self.diff in (None, other.diff)

    def __str__(self) -> str:
        return f"step {self.step} {self.change} {dict(self.row)}"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One difference between expected changes and a trace."""

    kind: MismatchKind
    step: int
    change: str
    row: Mapping[str, Any]
    columns: Mapping[str, Mapping[str, tuple[Any, Any] | None]] = field(default_factory=dict)
    """For a diff_mismatch: each column that differs, with what was `expected` and what is
    `actual`; None where the column is not in that diff."""

    def __str__(self) -> str:
        listed = [
            f"{name}: expected {_shown(both['expected'])}, actual {_shown(both['actual'])}"
            for name, both in self.columns.items()
        ]
        where = f"{self.kind}: step {self.step} {self.change} {dict(self.row)}"
        return "; ".join([where, *listed])


def _shown(pair: tuple[Any, Any] | None) -> str:
    return "no change" if pair is None else f"{pair[0]!r} -> {pair[1]!r}"


def compare_trace(actual: Iterable[RowChange], expected: Iterable[RowChange]) -> list[Mismatch]:
    """Pair each expected change with one of the trace. What finds no partner is a missing_event or
    an extra_event; what finds its row with other values is a diff_mismatch."""
    there, wanted = list(actual), list(expected)
    pairs = _paired(wanted, there)
    free = [n for n in range(len(there)) if n not in pairs.values()]
    found: list[Mismatch] = []
    for number, one in enumerate(wanted):
        if number in pairs:
            continue
        near = next((n for n in free if one.names(there[n])), None)
        if near is None:
            found.append(Mismatch("missing_event", one.step, one.change, one.row))
        else:
            free.remove(near)
            columns = _differing(one, there[near])
            found.append(Mismatch("diff_mismatch", one.step, one.change, one.row, columns))
    extra = (there[n] for n in free)
    return found + [Mismatch("extra_event", e.step, e.change, e.row) for e in extra]


def _paired(wanted: Sequence[RowChange], there: Sequence[RowChange]) -> dict[int, int]:
    """Pair as many as possible. An expectation that fits several changes gives way to one that
    fits fewer, so the order in which they are written does not matter."""
    taken: dict[int, int] = {}

    def pair(number: int, tried: set[int]) -> bool:
        for other in range(len(there)):
            if other in tried or not wanted[number].expects(there[other]):
                continue
            tried.add(other)
            if other not in taken or pair(taken[other], tried):
                taken[other] = number
                return True
        return False

    for number in range(len(wanted)):
        pair(number, set())
    return {number: other for other, number in taken.items()}


def _differing(one: RowChange, other: RowChange) -> dict[str, dict[str, tuple[Any, Any] | None]]:
    expected, actual = one.diff or {}, other.diff or {}
    return {
        name: {"expected": expected.get(name), "actual": actual.get(name)}
        for name in dict.fromkeys([*expected, *actual])
        if expected.get(name) != actual.get(name)
    }
