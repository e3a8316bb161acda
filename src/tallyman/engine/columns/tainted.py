"""Tainted columns: renamed, copied or computed from a redacted one."""

from __future__ import annotations

import re
from collections.abc import Collection

from tallyman.domain.definition.expression import bare_name
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import frames
from tallyman.domain.definition.step_facts import Operand, Step
from tallyman.engine.expressions.columns import mentioned


def tainted(plan: Frame, columns: Collection[str]) -> frozenset[str]:
    """Find all columns that a step may have made from these: possibly too many, never too few."""
    found = {name.lower() for name in columns}
    size = -1
    while columns and size != len(found):
        size = len(found)
        for frame in frames(plan):
            for step in frame.steps():
                found |= _made_from(step, found)
    return frozenset(found)


def _named(text: str) -> str:
    """Return the name of a selected expression: its alias, or the last part of its path."""
    words = text.replace("`", "").strip()
    alias = re.search(r"\bAS\s+(.+)$", words, re.I)
    return (alias.group(1) if alias else words.rpartition(".")[2] or words).strip().lower()


def _made_from(step: Step, hidden: Collection[str]) -> set[str]:
    found = {new.lower() for old, new in step.renames().items() if old.lower() in hidden}
    # A whole row of a reference may contain anything.
    rows = {lookup.alias.lower() for lookup in step.references}
    for each in step.assigns():
        if _shows(each.operand, hidden) or bare_name(each.operand.value).lower() in rows:
            name = _named(each.operand.value) if each.name is None else each.name
            found.add(name.lower())
    return found


def _shows(operand: Operand, hidden: Collection[str]) -> bool:
    if operand.is_name:
        return operand.value.lower() in hidden
    return bool(mentioned([operand.value], list(hidden)))
