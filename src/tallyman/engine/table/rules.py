"""Rules of a table as queries, and what broke them as text."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.domain.version.table import Column, Reference
from tallyman.domain.version.table_rules import ValueRule
from tallyman.engine.files.duck import duck_type, quoted, text


def holds(rule: ValueRule, column: Column) -> str:
    """Write the condition that a value follows the rule."""
    name, kind = quoted(rule.column), duck_type(column.type)
    conditions = []
    if rule.one_of:
        values = ", ".join(f"CAST({text(value)} AS {kind})" for value in rule.one_of)
        conditions.append(f"{name} IN ({values})")
    if rule.min is not None:
        conditions.append(f"{name} >= CAST({text(rule.min)} AS {kind})")
    if rule.max is not None:
        conditions.append(f"{name} <= CAST({text(rule.max)} AS {kind})")
    if rule.pattern is not None:
        conditions.append(f"regexp_full_match({name}, {text(rule.pattern)})")
    return " AND ".join(conditions)


def miscounted(refers: str, keys: str | None, reference: Reference) -> str:
    """Query the keys to which too few or too many rows refer, with the number of rows."""
    column, to = quoted(reference.column), quoted(reference.to)
    counted = (
        f"SELECT {column} AS key, count(*) AS n FROM {refers} WHERE {column} IS NOT NULL GROUP BY 1"
    )
    most = "false" if reference.at_most is None else f"n > {reference.at_most}"
    if not reference.at_least or keys is None:
        return f"SELECT key, n FROM ({counted}) WHERE {most}"
    every = f"SELECT k.{to} AS key, coalesce(c.n, 0) AS n FROM {keys} k"
    every = f"{every} LEFT JOIN ({counted}) c ON c.key = k.{to}"
    return f"SELECT key, n FROM ({every}) WHERE {most} OR n < {reference.at_least}"


def miscount(name: str, reference: Reference, key: object, count: object) -> str:
    to = f"{reference.table}.{reference.to} = {shown(key)}"
    return f"{count} row(s) of {name} refer to {to}, not {reference.counts}"


def named(labels: Sequence[str], values: Sequence[object]) -> str:
    pairs = zip(labels, values, strict=True)
    return ", ".join(f"{label} {shown(value)}" for label, value in pairs)


def shown(value: object) -> str:
    return repr(value) if isinstance(value, (str, bytes)) else str(value)
