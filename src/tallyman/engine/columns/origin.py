"""Where a column comes from: the input columns it is a plain copy of, if it is one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step import (
    Drop,
    Explode,
    GroupBy,
    Join,
    Rename,
    Select,
    Union,
    Update,
    WithColumns,
)
from tallyman.engine.expressions.columns import text_of
from tallyman.engine.plan.plain import is_star

NAME = re.compile(r"`([^`]+)`|(\w+)")
ALIASED = re.compile(r"(?:`([^`]+)`|(\w+))\s+AS\s+`?([^`]+?)`?", re.I)
KEEPS_COLUMNS = (
    "filter",
    "expect",
    "drop",
    "dropDuplicates",
    "delete",
    "aggregate",
    "append",
    "output",
)


def column_of(
    frame: Frame, column: str, known: Mapping[str, Collection[str]]
) -> dict[str, str] | None:
    """By input, the column whose values these are; None if they were computed."""
    step, parent = frame.step, frame.parent
    if step is None or parent is None:
        found = [name for name in known[frame.input] if name.lower() == column.lower()]
        return {frame.input: found[0]} if found else None
    match step:
        case WithColumns():
            given = {name.lower(): expression for name, expression in step.columns}
            if column.lower() not in given:
                return column_of(parent, column, known)
            return _copied(parent, given[column.lower()], known)
        case Update():
            given = {name.lower() for name, _ in step.set}
            return None if column.lower() in given else column_of(parent, column, known)
        case Rename() if step.new.lower() == column.lower():
            return column_of(parent, step.old, known)
        case Rename():
            return column_of(parent, column, known)
        case Select():
            return _selected(parent, step, column, known)
        case GroupBy():
            return column_of(parent, column, known) if column in step.by else None
        case Explode() if step.alias.lower() == column.lower():
            return None
        case Explode() | Join():
            return column_of(parent, column, known)
        case Union() if step.by_name:
            sides = [column_of(side, column, known) for side in (parent, step.other)]
            return {**sides[0], **sides[1]} if sides[0] and sides[1] else None
    return column_of(parent, column, known) if step.kind in KEEPS_COLUMNS else None


def only_columns(frame: Frame) -> bool:
    """Whether the rows of a reference are those of its input, none left out or combined."""
    kept = (Select, Drop, Rename, WithColumns)
    return all(isinstance(step, kept) for step in frame.steps())


def _copied(
    parent: Frame, expression: object, known: Mapping[str, Collection[str]]
) -> dict[str, str] | None:
    bare = NAME.fullmatch(text_of(expression).strip())
    return column_of(parent, bare[1] or bare[2], known) if bare else None


def _selected(
    parent: Frame, step: Select, column: str, known: Mapping[str, Collection[str]]
) -> dict[str, str] | None:
    for given in step.columns:
        words = text_of(given).strip()
        bare, aliased = NAME.fullmatch(words), ALIASED.fullmatch(words)
        if bare and (bare[1] or bare[2]).lower() == column.lower():
            return column_of(parent, column, known)
        if aliased and aliased[3].lower() == column.lower():
            return column_of(parent, aliased[1] or aliased[2], known)
    return column_of(parent, column, known) if any(map(is_star, step.columns)) else None
