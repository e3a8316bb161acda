"""The columns of an input that a plan reads: possibly too many, never too few."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step_facts import EVERY_COLUMN, Step
from tallyman.engine.expressions.columns import mentioned
from tallyman.engine.plan import plain


def columns_read(plan: Frame, name: str, columns: Sequence[str]) -> set[str]:
    """Collect the columns over every branch of the plan that accounts for the input."""
    found: set[str] = set()
    for steps in _chains(plan, name):
        found |= _read_by(steps, columns)
    return found


def _chains(plan: Frame, name: str) -> list[list[Step]]:
    """List the steps that rows of the input go through, for each time the plan starts from it."""
    if plan.step is None or plan.parent is None:
        return [[]] if plan.input == name else []
    chains = _chains(plan.parent, name)
    if plan.step.inflow is not None:
        chains = chains + _chains(plan.step.inflow, name)
    return [[*chain, plan.step] for chain in chains]


def _read_by(steps: Sequence[Step], columns: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for step in steps:
        names, values = step.column_names(), list(step.expressions())
        if step.in_place or step.inflow is not None or EVERY_COLUMN in names:
            return set(columns)
        if step.keeps_only is not None:
            # Columns that are not named here are dropped.
            listed = [*names, *values]
            whole = EVERY_COLUMN in listed
            return set(columns) if whole else found | set(mentioned(listed, columns))
        found |= {*names, *mentioned(values, columns)}
        for lookup in step.references:
            found |= {name for pair in plain.join_pairs(lookup.on, columns, []) for name in pair}
    return set(columns)
