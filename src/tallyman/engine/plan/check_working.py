"""Mistakes in the steps of a working set, and in their order."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType

from tallyman.domain.definition.expression import has_window
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import chain, is_traced, others, working_steps
from tallyman.domain.definition.step_facts import Step
from tallyman.domain.definition.working_step import Output
from tallyman.domain.history.trace import DELETED, ROW_ID, UPDATED_AT
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.version.dataset import DATASET_NAME
from tallyman.engine.expressions.columns import to_column
from tallyman.errors import Problem, UsageError
from tallyman.errors.wording import nearest

RESERVED = (ROW_ID, DELETED, UPDATED_AT)


def problems(asset: Asset, frame: Frame) -> list[Problem]:
    """Report steps that are not allowed at their position in the chain."""
    where = f"asset {asset.name}"
    found: list[Problem] = []
    changed: str | None = None
    for node in chain(frame):
        step = node.step
        assert step is not None
        if step.in_place:
            changed = step.kind
        elif changed and step.combines:
            text = (
                f"{step.kind} after {changed}: the rows would no longer be those that were changed"
            )
            found.append(Problem(where, f"{text}; make what follows a separate asset"))
        found += [
            Problem(where, f"{inner.kind} inside {step.kind}: only the asset's own rows change")
            for other in others(step)
            for inner in other.steps()
            if inner.in_place
        ]
    found += [Problem(where, text) for text in _path_problems(asset, frame)]
    steps = working_steps(frame)
    if asset.trace == "changes" and not steps:
        text = 'trace="changes": no step follows the last one that combines rows'
        found.append(Problem(where, f"{text}; there is nothing to record"))
    if is_traced(asset.trace, frame) or changed:
        found += _windows(where, [node.step for node in steps if node.step is not None])
    return found


def _path_problems(asset: Asset, frame: Frame) -> list[str]:
    paths = [step.path for step in frame.steps() if isinstance(step, Output)]
    twice = sorted({path for path in paths if paths.count(path) > 1})
    found = [f"two outputs go to {path!r}" for path in twice]
    if asset.partitioned_by is not None:
        found += [
            f"output to {path!r}: partitions would overwrite each other; put {{partition}} in it"
            for path in paths
            if "{partition}" not in path
        ]
    return found


def _windows(where: str, steps: Sequence[Step]) -> list[Problem]:
    found = []
    for step in steps:
        # Spark itself refuses windows in the condition of a filter or an expectation.
        assigned = (each.operand.value for each in step.assigns())
        for expression in step.expressions() if step.in_place else assigned:
            if has_window(expression):
                text = f"{expression!r} looks at other rows, which a traced step cannot"
                found.append(Problem(where, f"{text}; make it a separate asset and read that"))
    return found


def step_problems(step: Step, columns: Sequence[str], where: str) -> list[Problem]:
    """Report names that clash with ours, or that do not exist."""
    if not step.in_place:
        return []
    lowered = {name.lower() for name in columns}
    found = [
        f"join {lookup.alias!r} has the name of a column; give it another name"
        for lookup in step.references
        if lookup.alias.lower() in lowered
    ]
    made, by = step.made_names(), step.column_names()
    found += [f"{name!r} is both a group and an aggregate" for name in made if name in by]
    found += _output_problems(step, columns) if isinstance(step, Output) else []
    taken = [name for name in (*columns, *made) if name.lower() in RESERVED]
    found += [f"column {name!r} is reserved for the working set" for name in taken]
    return [Problem(where, text) for text in found]


def _output_problems(step: Output, columns: Sequence[str]) -> list[str]:
    found = []
    for name in step.columns or ():
        if name not in columns and name not in RESERVED:
            near = nearest(name, columns, cutoff=0.5)
            meant = f". Did you mean {near!r}?" if near else ""
            found.append(f"unknown column {name!r}{meant}")
    if step.register_as is not None and step.format != "parquet":
        found.append(f"register_as: a dataset is Parquet, the output is {step.format}")
    if step.register_as is not None and not DATASET_NAME.fullmatch(step.register_as):
        found.append(
            f"register_as {step.register_as!r} is not a name for a dataset "
            "(lower-case letters, digits and '_')"
        )
    return found


def check_conditions(step: Step, rows: DataFrame) -> None:
    """Check that a condition of a step in place is boolean."""
    if not step.in_place or step.references:
        return  # with a reference, it may read looked-up columns
    for condition in (each.value for each in step.decided_by() if not each.is_name):
        found = rows.select(to_column(condition, list(rows.columns)).alias("c")).schema["c"]
        if not isinstance(found.dataType, BooleanType):
            kind = found.dataType.simpleString()
            raise UsageError(f"where gives {kind}, not true or false: {condition!r}")
