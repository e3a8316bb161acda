"""The origin of a column: the input columns of which it is a plain copy, if any."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from tallyman.domain.definition.column_lineage import Way
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step_facts import EVERY_COLUMN, Operand, Step

NAME = re.compile(r"`([^`]+)`|(\w+)")
ALIASED = re.compile(r"(?:`([^`]+)`|(\w+))\s+AS\s+`?([^`]+?)`?", re.I)
Known = Mapping[str, Collection[str]]


def column_of(frame: Frame, column: str, known: Known) -> dict[str, str] | None:
    """Map each input to the column that this one copies; None if values were computed."""
    step, parent = frame.step, frame.parent
    if step is None or parent is None:
        found = [name for name in known[frame.input] if name.lower() == column.lower()]
        return {frame.input: found[0]} if found else None
    if step.inflow is not None and not step.in_place:
        return _of_both(parent, step, column, known)
    before = _called_before(step, column)
    return None if before is None else column_of(parent, before, known)


def _of_both(parent: Frame, step: Step, column: str, known: Known) -> dict[str, str] | None:
    if step.inflow is None or not step.meets_by_name:
        return None
    sides = [column_of(side, column, known) for side in (parent, step.inflow)]
    return {**sides[0], **sides[1]} if sides[0] and sides[1] else None


def _called_before(step: Step, column: str) -> str | None:
    """Find the column before the step of which this one is a copy."""
    for old, new in step.renames().items():
        if new.lower() == column.lower():
            return old
    # Added rows leave the other rows unchanged.
    for each in () if step.adds_rows else step.assigns():
        if each.name is None and (copied := _selected(each.operand.value, column)) is not None:
            return copied
        if each.name is not None and each.name.lower() == column.lower():
            return None if step.in_place else _copied(each.operand)
    return column if _goes_on(step, column) else None


def _goes_on(step: Step, column: str) -> bool:
    if step.keeps_only is None or column in step.keeps_only:
        return True
    return any(each.name is None and each.operand.value == EVERY_COLUMN for each in step.assigns())


def only_columns(frame: Frame) -> bool:
    """True if a reference has exactly the rows of its input, none left out or combined."""
    return all(step.only_columns for step in frame.steps())


def _copied(operand: Operand) -> str | None:
    bare = NAME.fullmatch(operand.value.strip())
    return (bare[1] or bare[2]) if bare and operand.way is Way.IDENTITY else None


def _selected(given: str, column: str) -> str | None:
    """Return the column that is selected under this name, if any."""
    words = given.strip()
    bare, aliased = NAME.fullmatch(words), ALIASED.fullmatch(words)
    if bare and (bare[1] or bare[2]).lower() == column.lower():
        return column
    if aliased and aliased[3].lower() == column.lower():
        return aliased[1] or aliased[2]
    return None
