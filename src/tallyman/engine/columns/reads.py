"""Which columns of an input a plan reads: never too few."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step import (
    Aggregate,
    Append,
    Delete,
    Drop,
    DropDuplicates,
    Expect,
    Explode,
    Filter,
    GroupBy,
    Join,
    Output,
    Rename,
    Select,
    Step,
    Union,
    Update,
    WithColumns,
)
from tallyman.engine.expressions.columns import mentioned
from tallyman.engine.plan import plain


def columns_read(plan: Frame, name: str, columns: Sequence[str]) -> set[str]:
    """Over every branch of the plan in which the input is accounted for."""
    found: set[str] = set()
    for steps in _chains(plan, name):
        found |= _read_by(steps, columns)
    return found


def _chains(plan: Frame, name: str) -> list[list[Step]]:
    """The steps that rows of the input go through, for each time the plan starts from it."""
    if plan.step is None or plan.parent is None:
        return [[]] if plan.input == name else []
    chains = _chains(plan.parent, name)
    if isinstance(plan.step, (Union, Append)):
        chains = chains + _chains(plan.step.other, name)
    return [[*chain, plan.step] for chain in chains]


def _read_by(steps: Sequence[Step], columns: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for step in steps:
        match step:
            case Select() | GroupBy():
                listed = step.columns if isinstance(step, Select) else [*step.by]
                if any(map(plain.is_star, listed)):
                    return set(columns)
                values = [] if isinstance(step, Select) else [e for _, e in step.aggregates]
                # What is not named here does not go on.
                return found | set(mentioned([*listed, *values], columns))
            case WithColumns():
                found |= set(mentioned([e for _, e in step.columns], columns))
            case Filter() | Expect():
                found |= set(mentioned([step.predicate], columns))
            case Join():
                found |= {left for left, _ in plain.join_pairs(step.on, columns, [])}
                found |= {right for _, right in plain.join_pairs(step.on, columns, [])}
            case Explode():
                found.add(step.column)
            case Rename():
                found.add(step.old)
            case Drop():
                continue
            case Union() | Update() | Delete() | Aggregate() | Append() | Output():
                return set(columns)
            case DropDuplicates():
                if step.subset is None:
                    return set(columns)
                found |= set(step.subset)
    return set(columns)
