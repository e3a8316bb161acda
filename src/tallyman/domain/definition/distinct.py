"""Which columns distinguish the rows of a result, as far as its steps alone show it."""

from __future__ import annotations

from collections.abc import Iterable

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step import (
    Delete,
    Drop,
    DropDuplicates,
    Expect,
    Filter,
    GroupBy,
    Join,
    Output,
    Rename,
    Select,
    Step,
    Update,
    WithColumns,
)


def distinguished_by(plan: Frame) -> frozenset[str] | None:
    """Columns, in lower case, of which no two rows of the result have the same values.

    Groups differ in what they are grouped by, and rows that dropDuplicates left in what it looked
    at: any key with these columns in it is unique, and nobody has to count. None: not known.
    """
    found: frozenset[str] | None = None
    for step in plan.steps():
        found = _after(step, found)
    return found


def _after(step: Step, before: frozenset[str] | None) -> frozenset[str] | None:
    match step:
        case GroupBy():
            return _lowered(step.by)
        case DropDuplicates(subset=subset) if subset is not None:
            return _lowered(subset)
    if before is None:
        return None
    match step:
        case Filter() | Expect() | Delete() | Output() | DropDuplicates():
            return before
        case Join(fanout="error"):
            return before
        case WithColumns(columns=written) | Update(set=written):
            return None if before & _lowered(name for name, _ in written) else before
        case Drop():
            return None if before & _lowered(step.columns) else before
        case Select():
            kept = _kept(step)
            return before if "*" in kept or before <= kept else None
        case Rename():
            return _renamed(step, before)
    return None


def _lowered(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def _kept(step: Select) -> frozenset[str]:
    """Columns taken as they are; an expression may be anything."""
    names = (text.strip().strip("`") for text in step.columns if isinstance(text, str))
    return _lowered(name for name in names if "`" not in name)


def _renamed(step: Rename, before: frozenset[str]) -> frozenset[str] | None:
    old, new = step.old.lower(), step.new.lower()
    if new in before:
        return before if new == old else None
    return before - {old} | {new} if old in before else before
