"""Steps in plain PySpark: for references, and for checking a plan without data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step import (
    Drop,
    DropDuplicates,
    Expect,
    Explode,
    Filter,
    GroupBy,
    Join,
    Rename,
    Select,
    Union,
    Warn,
)
from tallyman.domain.definition.step_facts import EVERY_COLUMN, On, Step
from tallyman.engine.expressions.columns import col, named_column, to_column
from tallyman.errors import UsageError
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as F
else:
    F = OnDemand("pyspark.sql.functions")

Evaluate: TypeAlias = "Callable[[Frame], DataFrame]"
MATCHES, REFERENCE = "_tm_matches", "_tm_reference"
_EQUALITY = re.compile(r"\(*\s*`?([^`=()]+?)`?\s*==?\s*`?([^`=()]+?)`?\s*\)*")


def apply(step: Step, rows: DataFrame, other: Evaluate) -> DataFrame:
    """Apply one step as a plain transformation; an expectation keeps rows that meet it."""
    match step:
        case Select():
            return rows.select(*selected(step, rows, rows.columns))
        case Drop():
            return rows.drop(*step.columns)
        case Rename():
            return rows.withColumnRenamed(step.old, step.new)
        case Step(only_columns=True):
            names = rows.columns
            return rows.withColumns({n: to_column(e, names) for n, e in step.values().items()})
        case Filter() | Expect():
            return rows.filter(to_column(step.predicate, rows.columns))
        case Warn():
            return rows
        case Join():
            return joined(step, rows, other(step.other))
        case GroupBy():
            return aggregated(step, rows, rows.columns)
        case Explode():
            function = F.explode_outer if step.outer else F.explode
            return rows.withColumn(step.alias, function(col(step.column)))
        case Union():
            side = other(step.other)
            return rows.unionByName(side) if step.by_name else rows.union(side)
        case DropDuplicates():
            return rows.dropDuplicates(list(step.subset) if step.subset is not None else None)
    raise UsageError(f"unknown step {step.kind}")


def selected(step: Select, rows: DataFrame, columns: Sequence[str]) -> list[Column]:
    return [named_column(expression, rows, columns) for expression in listed(step, columns)]


def listed(step: Select, columns: Sequence[str]) -> list[str]:
    """List the selected expressions, with all columns in place of `*`."""
    found: list[str] = []
    for expression in step.columns:
        found += columns if expression == EVERY_COLUMN else [expression]
    return found


def aggregated(
    step: GroupBy, rows: DataFrame, columns: Sequence[str], also: Sequence[Column] = ()
) -> DataFrame:
    named = [to_column(e, columns).alias(n) for n, e in step.aggregates]
    return rows.groupBy(*map(col, step.by)).agg(*named, *also)


def join_pairs(on: On, left: Sequence[str], right: Sequence[str]) -> list[tuple[str, str]]:
    """Parse the equalities of a join: names on both sides, or `a = b AND c = d`."""
    if not isinstance(on, str):
        return [pair for item in on for pair in join_pairs(item, left, right)]
    if "=" not in on:
        return [(on, on)]
    pairs = []
    for equality in re.split(r"\s+AND\s+", on, flags=re.I):
        found = _EQUALITY.fullmatch(equality.strip())
        if not found:
            advice = "compute with withColumn first"
            raise UsageError(f"join on equality of columns, not {on!r}; {advice}")
        first, second = (name.strip() for name in found.groups())
        swap = first not in left and first in right and second in left
        pairs.append((second, first) if swap else (first, second))
    return pairs


def shares_names(on: On) -> bool:
    """True if the join is by name, so that the key column appears once."""
    return not any("=" in each for each in ([on] if isinstance(on, str) else on))


def joined_columns(on: On, left: Sequence[str], added: Sequence[str]) -> tuple[str, ...]:
    """Order the columns of a join: those joined by name come first."""
    first = [name for name, _ in join_pairs(on, left, ())] if shares_names(on) else []
    return (*first, *(name for name in left if name not in first), *added)


def looked_up(rows: DataFrame, reference: DataFrame, pairs: Sequence[tuple[str, str]]) -> DataFrame:
    """Add to each row the number of matching rows of the reference, and one of them. Rows cannot
    multiply.
    """
    found = reference.groupBy(*compared(right for _, right in pairs)).agg(
        F.count(F.lit(1)).alias(MATCHES),
        F.first(F.struct(*(col(name).alias(name) for name in reference.columns))).alias(REFERENCE),
    )
    return rows.join(found, meets(left for left, _ in pairs), "left")


def compared(names: Iterable[str]) -> list[Column]:
    """Name the columns that a join compares, on one side, so that the other has no such names."""
    return [col(name).alias(f"_tm_on{number}") for number, name in enumerate(names)]


def meets(names: Iterable[str]) -> Column:
    """True if the columns of the other side are equal to those."""
    equal = (col(name) == F.col(f"_tm_on{number}") for number, name in enumerate(names))
    return reduce(lambda one, other: one & other, equal, F.lit(True))


def joined(step: Join, rows: DataFrame, reference: DataFrame) -> DataFrame:
    pairs = join_pairs(step.on, rows.columns, reference.columns)
    how = "left" if step.unmatched == "keep" else "inner"
    if shares_names(step.on):
        return rows.join(reference, [left for left, _ in pairs], how)
    left_side, right_side = rows.alias("_tm_left"), reference.alias("_tm_right")
    condition = F.lit(True)
    for left, right in pairs:
        condition = condition & (F.col(f"_tm_left.`{left}`") == F.col(f"_tm_right.`{right}`"))
    return left_side.join(right_side, condition, how)
