"""Columns that show what another one must not: renamed, copied or computed from it."""

from __future__ import annotations

import re
from collections.abc import Collection

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import frames
from tallyman.domain.definition.step import (
    Aggregate,
    Explode,
    GroupBy,
    Rename,
    Select,
    Step,
    Update,
    WithColumns,
)
from tallyman.engine.expressions.columns import mentioned, text_of


def tainted(plan: Frame, columns: Collection[str]) -> frozenset[str]:
    """The columns and all that a step of the plan may have made from them: never too few."""
    found = {name.lower() for name in columns}
    size = -1
    while columns and size != len(found):
        size = len(found)
        for frame in frames(plan):
            for step in frame.steps():
                found |= _made_from(step, found)
    return frozenset(found)


def _named(text: str) -> str:
    """What is selected is called by its alias, or by the last part of its path."""
    words = text.replace("`", "").strip()
    alias = re.search(r"\bAS\s+(.+)$", words, re.I)
    return (alias.group(1) if alias else words.rpartition(".")[2] or words).strip().lower()


def _made_from(step: Step, hidden: Collection[str]) -> set[str]:
    match step:
        case Rename():
            return {step.new.lower()} if step.old.lower() in hidden else set()
        case WithColumns():
            pairs = step.columns
        case Update():
            pairs = step.set
            aliases = {lookup.alias.lower() for lookup in step.join}
            whole = [n for n, value in pairs if text_of(value).strip("` ").lower() in aliases]
            # A row of a reference, all of it; who knows what is in it.
            found = {name.lower() for name in whole}
            return found | {n.lower() for n, value in pairs if mentioned([value], list(hidden))}
        case Aggregate() | GroupBy():
            pairs = step.aggregates
        case Select():
            texts = [text_of(each) for each in step.columns]
            return {_named(text) for text in texts if mentioned([text], list(hidden))}
        case Explode():
            return {step.alias.lower()} if step.column.lower() in hidden else set()
        case _:
            return set()
    return {name.lower() for name, value in pairs if mentioned([value], list(hidden))}
