"""Steps that change rows in place, on the columns of one DataFrame.

The caller decides which rows may be touched; rows that ended are not among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tallyman.domain.definition.expression import bare_name
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step_facts import EVERY_COLUMN, Lookup, On, Step
from tallyman.domain.definition.working_step import Aggregate, Append, Delete, Output, Update
from tallyman.engine.expressions.columns import col, to_column, to_sql
from tallyman.engine.plan import plain
from tallyman.errors import UsageError
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, types
    from pyspark.sql import functions as F
    from pyspark.sql.types import DataType, StructType
else:
    F, types = OnDemand("pyspark.sql.functions"), OnDemand("pyspark.sql.types")

MATCHED = "_tm_matched"


def spelled(name: str, columns: Sequence[str]) -> str | None:
    """Find a column by name in its own spelling: Spark ignores case."""
    return next((c for c in columns if c.lower() == name.lower()), None)


def assigned_by(step: Step, before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """List the columns that may get other values in a step, by their names after it."""
    if step.adds_rows:
        return ()
    if step.keeps_only is not None:
        return tuple(name for name in after if name not in _taken_as_they_are(step, before))
    looked_up = any(not lookup.alias for lookup in step.references)
    added = tuple(name for name in after if looked_up and name not in before)
    return (*set_names(step, before), *added)


def _taken_as_they_are(step: Step, before: Sequence[str]) -> set[str]:
    values = [each.operand.value for each in step.assigns()]
    return set(before) if EVERY_COLUMN in values else set(map(bare_name, values)) & set(before)


def set_names(step: Step, before: Sequence[str]) -> tuple[str, ...]:
    """List what a step assigns, each column once, spelled as after the step."""
    found: list[str] = []
    for name in step.values():
        own = name if step.respells else spelled(name, [*before, *found]) or name
        if own not in found:
            found.append(own)
    return tuple(found)


def may_assign(step: Step, columns: Sequence[str]) -> tuple[str, ...]:
    """List columns with earlier values that may be asked for after the step."""
    if step.adds_rows:
        return ()
    names = list(step.values()) if step.keeps_only is None else columns
    found = (spelled(name, columns) for name in names)
    return tuple(dict.fromkeys(name for name in found if name is not None))


def renamed_by(step: Step, before: Sequence[str]) -> dict[str, str]:
    renamed = {old: new for old, new in step.renames().items() if old in before}
    if not step.respells or step.adds_rows:
        return renamed
    names = (
        bare_name(each.operand.value) if each.name is None else each.name for each in step.assigns()
    )
    found = {spelled(name, before): name for name in names}
    return renamed | {old: new for old, new in found.items() if old is not None and old != new}


def equalities(lookup: Lookup) -> On:
    """Return the condition without the alias: its columns may be written as `alias.column`."""
    if not isinstance(lookup.on, str) or not lookup.alias:
        return lookup.on
    return re.sub(rf"\b{re.escape(lookup.alias)}\.", "", lookup.on)


def look_up(
    rows: DataFrame, lookup: Lookup, reference: DataFrame, columns: Sequence[str]
) -> DataFrame:
    """Add the matching row of the reference as a struct named by the alias, and the match count."""
    pairs = plain.join_pairs(equalities(lookup), columns, reference.columns)
    kept = [c for c in rows.columns if c != lookup.alias]
    found = plain.looked_up(rows, reference, pairs)
    return found.select(*map(col, kept), F.col(plain.REFERENCE).alias(lookup.alias), plain.MATCHES)


def update(rows: DataFrame, step: Update, columns: Sequence[str], live: str) -> DataFrame:
    """Assign in order, on rows that matched before the first assignment. `live` is SQL.

    References are already present, as structs named by their alias.
    """
    kinds = {f.name: f.dataType for f in rows.schema}
    where = "true" if step.where is None else to_sql(step.where, columns)
    matched = f"CASE WHEN {live} THEN coalesce({where}, false) ELSE false END AS {MATCHED}"
    rows = rows.selectExpr("*", matched)
    names = list(columns)
    for name, expression in step.set:
        known = spelled(name, names)
        value = F.expr(f"CASE WHEN {MATCHED} THEN {to_sql(expression, names)} END")
        if known is None:
            rows = rows.withColumn(name, value)
            names.append(name)
            kinds[name] = rows.schema[name].dataType
        else:
            kept = F.when(F.col(MATCHED), value.cast(kinds[known])).otherwise(col(known))
            rows = rows.withColumn(known, kept)
    return rows.drop(MATCHED)


def groups(
    rows: DataFrame, step: Aggregate, columns: Sequence[str], schema: StructType
) -> tuple[DataFrame, StructType]:
    """Make one row per group with all columns of the working set; return also the new schema."""
    kinds = {f.name: f.dataType for f in schema}
    named = [
        to_column(e, list(columns)).alias(spelled(n, columns) or n) for n, e in step.aggregates
    ]
    found = rows.groupBy(*map(col, step.by)).agg(*named)
    widened = types.StructType(list(schema.fields))
    for field in found.schema:
        if field.name not in kinds:
            widened = widened.add(field.name, field.dataType, True)
    return aligned(found, widened), widened


def aligned(
    rows: DataFrame, schema: StructType, carried: Sequence[str] = (), live: Column | None = None
) -> DataFrame:
    """Convert rows to the columns of the working set: cast existing ones, NULL for the others.

    Only values of `live` rows are cast: other rows may have been dropped because they do not fit.
    """
    there = {f.name: f.dataType for f in rows.schema}
    chosen = [_as(f.name, there, f.dataType, live) for f in schema]
    return rows.select(*chosen, *carried)


def _as(name: str, there: dict[str, DataType], kind: DataType, live: Column | None) -> Column:
    if name not in there:
        return F.lit(None).cast(kind).alias(name)
    if there[name] == kind:
        return col(name)
    value = col(name).cast(kind)
    return (value if live is None else F.when(live, value)).alias(name)


def evaluate(frame: Frame, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """Evaluate a whole plan as plain transformations."""
    if frame.step is None or frame.parent is None:
        return inputs[frame.input]
    return apply(frame.step, evaluate(frame.parent, inputs), lambda f: evaluate(f, inputs))


def apply(step: Step, rows: DataFrame, other: plain.Evaluate) -> DataFrame:
    """Apply any step as a plain transformation, for its schema or for a comparison."""
    columns = list(rows.columns)
    match step:
        case Update():
            for lookup in step.join:
                rows = look_up(rows, lookup, other(lookup.other), columns).drop(plain.MATCHES)
            done = update(rows, step, columns, "true")
            return done.drop(*(lookup.alias for lookup in step.join))
        case Delete():
            gone = F.lit(True) if step.where is None else to_column(step.where, columns)
            return rows.where(~F.coalesce(gone, F.lit(False)))
        case Aggregate():
            added, schema = groups(matching(rows, step.where), step, columns, rows.schema)
            return aligned(rows, schema).unionAll(added)
        case Append():
            return rows.unionAll(aligned(incoming(other(step.other), rows.schema), rows.schema))
        case Output():
            return rows
    return plain.apply(step, rows, other)


def matching(rows: DataFrame, where: str | None) -> DataFrame:
    return rows if where is None else rows.where(to_column(where, list(rows.columns)))


def incoming(rows: DataFrame, schema: StructType, carried: Sequence[str] = ()) -> DataFrame:
    """Check rows to be appended; UsageError if they have columns that the working set lacks."""
    own = [name for name in rows.columns if name not in carried]
    extra = [name for name in own if spelled(name, schema.names) is None]
    if extra:
        raise UsageError(
            f"append brings columns that do not exist: {', '.join(extra)}; "
            f"the columns are {', '.join(schema.names)}. Select or rename before appending"
        )
    chosen = [col(name).alias(spelled(name, schema.names) or name) for name in own]
    return rows.select(*chosen, *carried)
