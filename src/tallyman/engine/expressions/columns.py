"""Expressions: from SQL text to Columns, and the columns they mention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tallyman.engine.expressions.clock import Timed, pinned
from tallyman.engine.expressions.column_names import quoted
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, types
    from pyspark.sql import functions as F
    from pyspark.sql.types import DataType
else:
    F, types = OnDemand("pyspark.sql.functions"), OnDemand("pyspark.sql.types")

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^']*')|(?P<number>\d+(?:\.\d+)?)|(?P<quoted>`[^`]+`)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign><=>|<=|>=|<>|!=|=|<|>|\(|\)|,|-))"
)
_LOGIC = {"and", "or", "not", "is", "null", "in", "between", "true", "false"}


def col(name: str) -> Column:
    """Refer to a column by its whole name, whatever characters it contains."""
    return F.col(quoted(name))


def as_text(value: str) -> str:
    """Write in SQL the text of a value as keys and dead letters have it. Bytes become hex: as they
    are, they need not be text. The type is known when Spark plans, so rows cost nothing more."""
    text = f"CAST({value} AS STRING)"
    return f"CASE WHEN typeof({value}) = 'binary' THEN hex({text}) ELSE {text} END"


def to_sql(expression: str, columns: Sequence[str]) -> str:
    """Write an expression so that it can stand in a larger one. Its text is on lines of its own:
    Spark's errors quote these, and a comment ends with its line."""
    return quoted(expression) if expression in columns else f"(\n{_timed(expression, columns)}\n)"


def to_column(expression: str, columns: Sequence[str]) -> Column:
    """Convert to a Column: the name of an existing column means that column, other text is SQL."""
    return col(expression) if expression in columns else F.expr(_timed(expression, columns))


def _timed(expression: str, columns: Sequence[str]) -> str:
    """Put the run's time in place of the clock, unless the name that looks like it is a column."""
    if not isinstance(expression, Timed):
        return expression
    return pinned(expression, expression.moment, columns)


def named_column(expression: str, rows: DataFrame, columns: Sequence[str]) -> Column:
    """Convert for a select; an expression that reads the clock is named as it was written."""
    found = to_column(expression, columns)
    if not isinstance(expression, Timed) or expression.endswith(".*"):
        return found
    names = rows.select(to_column(str(expression), columns)).columns
    return found.alias(names[0]) if len(names) == 1 else found


def mentioned(expressions: Iterable[str], columns: Sequence[str]) -> tuple[str, ...]:
    """List the columns that expressions may read: possibly too many, never too few."""
    text = "\n".join(expressions)
    uncounted = re.sub(r"count\s*\(\s*\*\s*\)", "", text, flags=re.I)
    if re.search(r"([(,.]|\bdistinct)\s*\*", uncounted, re.I):
        return tuple(columns)
    words = {word.lower() for word in re.findall(r"\w+", text)}
    lowered = text.lower()
    plain = re.compile(r"\w+")
    return tuple(
        name
        for name in columns
        if (
            name.lower() in words
            if plain.fullmatch(name)
            else name.lower() in lowered or quoted(name).lower() in lowered
        )
    )


def _family(kind: DataType) -> str | None:
    for name, family in (
        ("number", types.NumericType),
        ("text", types.StringType),
        ("bool", types.BooleanType),
        ("date", types.DateType),
        ("date", types.TimestampType),
    ):
        if isinstance(kind, family):
            return name
    return None


def cannot_raise(expression: str, types: dict[str, DataType]) -> bool:
    """True if a condition only compares, so that it can be evaluated on a rejected record.

    Anything that computes could raise under ANSI rules, exactly because the record is broken.
    """
    position, families, literals = 0, set(), set()
    while position < len(expression.rstrip()):
        token = _TOKEN.match(expression, position)
        if token is None:
            return False
        position = token.end()
        if token["text"]:
            literals.add("text")
        elif token["number"]:
            literals.add("number")
        elif (word := token["word"] or (token["quoted"] or "").strip("`")) in types:
            families.add(_family(types[word]))
        elif (token["word"] and word.lower() not in _LOGIC) or token["quoted"]:
            return False
    if len(families) != 1 or None in families:
        return False
    family = families.pop()
    return literals <= ({"text"} if family in ("text", "date") else {"number"})
