"""The steps of a working set as data: what a trace is read with, long after the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step import (
    Aggregate,
    Append,
    Delete,
    Expect,
    Filter,
    Output,
    Step,
    Update,
    WithColumns,
)
from tallyman.engine.expressions.columns import text_of
from tallyman.engine.plan import in_place
from tallyman.engine.spark import small_tables


def described(
    spark: SparkSession,
    nodes: Sequence[Frame],
    loaded: StructType,
    named: Callable[[Frame], tuple[int, str]],
    other: Callable[[Frame], DataFrame],
) -> list[dict[str, object]]:
    """Each step with its number, its text, and the columns behind it."""
    rows = small_tables.empty(spark, loaded)
    found: list[dict[str, object]] = []
    for node in nodes:
        step = node.step
        assert step is not None
        before = rows.columns
        rows = in_place.apply(step, rows, other)
        seq, name = named(node)
        found.append(
            {
                "seq": seq,
                "id": name,
                "kind": step.kind,
                "text": text(step),
                "assigned": list(in_place.assigned_by(step, before, rows.columns)),
                "renamed": in_place.renamed_by(step, before),
                "columns": rows.columns,
            }
        )
    return found


def text(step: Step) -> str:
    """What a person wrote, on one line."""
    match step:
        case Update():
            return _where(_list(step.set), step.where)
        case WithColumns():
            return _list(step.columns)
        case Delete():
            return _where("all rows" if step.where is None else "rows", step.where)
        case Filter():
            return _where("keep rows", step.predicate)
        case Expect():
            return f"{step.rule}: {text_of(step.predicate)}"
        case Aggregate():
            return _where(f"by {', '.join(step.by)}: {_list(step.aggregates)}", step.where)
        case Append():
            return f"rows of {step.other.input}"
        case Output():
            return f"to {step.path}"
    return step.kind


def _list(pairs: Sequence[tuple[str, object]] | Mapping[str, object]) -> str:
    listed = pairs.items() if isinstance(pairs, Mapping) else pairs
    return ", ".join(f"{name} = {text_of(value)}" for name, value in listed)


def _where(what: str, condition: object) -> str:
    return what if condition is None else f"{what} where {text_of(condition)}"
