"""SQL text of the literals and types of Spark Connect: the same value and the same type."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyspark.sql.connect import types
else:
    # Whoever made a Column has imported it already.
    types = OnDemand("pyspark.sql.connect.types")

Tree = Any
EPOCH = date(1970, 1, 1)


class NoText(Exception):
    """A Column cannot be written as SQL: why, and what to write instead."""


def text_literal(value: str) -> str:
    """Quote a text. Spark replaces `${…}` by a setting even inside a string, before it parses."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return "'" + escaped.replace("\0", "\\u0000") + "'"


def literal_text(tree: Tree) -> str:
    """Write a `spark.connect.Expression.Literal`."""
    kind = tree.WhichOneof("literal_type")
    writer = _WRITERS.get(kind)
    if writer is None:
        raise NoText(f"a literal of type {kind} has no SQL here; write the expression as text")
    return writer(getattr(tree, kind))


def type_text(tree: Tree) -> str:
    """Write a `spark.connect.DataType`."""
    return str(types.proto_schema_to_pyspark_data_type(tree).simpleString())


def _null(tree: Tree) -> str:
    kind = tree.WhichOneof("kind")
    return "NULL" if kind in (None, "null") else f"CAST(NULL AS {type_text(tree)})"


def _whole(suffix: str) -> Callable[[int], str]:
    return lambda value: f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"


def _double(value: float) -> str:
    if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
        return f"double('{value}')"
    return f"{value!r}D" if value >= 0 else f"({value!r}D)"


def _decimal(tree: Tree) -> str:
    if tree.HasField("precision") and tree.HasField("scale"):
        return f"CAST('{tree.value}' AS DECIMAL({tree.precision},{tree.scale}))"
    return f"{tree.value}BD"


def _date(days: int) -> str:
    try:
        return f"DATE '{(EPOCH + timedelta(days=days)).isoformat()}'"
    except OverflowError:
        raise NoText("a date is in the years 1 to 9999") from None


def _interval(micros: int) -> str:
    sign, rest = ("-" if micros < 0 else ""), abs(micros)
    seconds, fraction = divmod(rest, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    clock = f"{hours:02}:{minutes:02}:{seconds % 60:02}.{fraction:06}"
    return f"INTERVAL '{sign}{days} {clock}' DAY TO SECOND"


def _array(tree: Tree) -> str:
    if not tree.elements:
        raise NoText("an empty list has no type in SQL; write CAST(array() AS ARRAY<type>)")
    return f"array({', '.join(map(literal_text, tree.elements))})"


def _specialized(tree: Tree) -> str:
    kind = tree.WhichOneof("value_type")
    writers = {"bools": "boolean", "ints": "integer", "longs": "long", "strings": "string"}
    writers |= {"floats": "float", "doubles": "double"}
    values = list(getattr(tree, kind).values)
    if not values or kind not in writers:
        raise NoText("write the list as SQL text: array(…)")
    return f"array({', '.join(map(_WRITERS[writers[kind]], values))})"


_WRITERS: Mapping[str | None, Callable[[Any], str]] = {
    "null": _null,
    "boolean": lambda value: "true" if value else "false",
    "byte": _whole("Y"),
    "short": _whole("S"),
    "integer": _whole(""),
    "long": _whole("L"),
    "float": lambda value: f"CAST({_double(value)} AS FLOAT)",
    "double": _double,
    "decimal": _decimal,
    "string": text_literal,
    "binary": lambda value: f"X'{value.hex().upper()}'",
    "date": _date,
    "timestamp": lambda micros: f"timestamp_micros({micros})",
    "day_time_interval": _interval,
    "array": _array,
    "specialized_array": _specialized,
}
