"""Columns that distinguish the rows of a result, as far as the steps alone show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tallyman.domain.definition.expression import bare_name
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step_facts import Step


def distinguished_by(plan: Frame) -> frozenset[str] | None:
    """Find columns, in lower case, whose values differ between any two rows of the result.

    Groups differ in the columns they are grouped by, and rows kept by dropDuplicates in its subset.
    A key that contains these columns is unique and needs no count. None means unknown.
    """
    found: frozenset[str] | None = None
    for step in plan.steps():
        found = _after(step, found)
    return found


def _after(step: Step, before: frozenset[str] | None) -> frozenset[str] | None:
    if step.distinct_by is not None:
        return _lowered(step.distinct_by)
    if before is None or step.multiplies or step.adds_rows:
        return None
    if before & _lowered((*step.drops(), *step.values())):
        return None
    if step.keeps_only is not None:
        kept = _kept(step)
        return before if "*" in kept or before <= kept else None
    return _renamed(step.renames(), before)


def _lowered(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def _kept(step: Step) -> frozenset[str]:
    """List the columns that are taken unchanged; an expression may be anything."""
    names = (bare_name(each.operand.value) for each in step.assigns() if each.name is None)
    return _lowered((*(step.keeps_only or ()), *(name for name in names if "`" not in name)))


def _renamed(renames: Mapping[str, str], before: frozenset[str]) -> frozenset[str] | None:
    for old, new in ((old.lower(), new.lower()) for old, new in renames.items()):
        if new in before:
            return before if new == old else None
        before = before - {old} | {new} if old in before else before
    return before
