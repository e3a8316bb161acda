"""The text of a value as Spark writes it, for types where it is known without Spark.

Keys are texts that Spark wrote. The same text is made here to measure an output with key columns,
or the groups in the evidence. Other types (floats, binary, nested) raise NoSparkText; then Spark
itself is asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

_CONTROL = re.compile(r"\\u00[0-9a-f]{2}")


class NoSparkText(Exception):
    """Only Spark knows the text of a value of this type."""


def has_text(kind: pa.DataType) -> bool:
    """True if values of the type have the same text here and in Spark."""
    return _writer(kind) is not None


def texts(values: pa.Array | pa.ChunkedArray) -> list[str | None]:
    """Compute CAST(value AS STRING) of each value."""
    write = _writer(values.type)
    if write is None:
        raise NoSparkText(str(values.type))
    try:
        return [None if value is None else write(value) for value in values.to_pylist()]
    except (OverflowError, ValueError) as error:  # years that Python's dates do not support
        raise NoSparkText(str(values.type)) from error


def group_text(names: Sequence[str], values: Iterable[str | None]) -> str:
    """Compute to_json of a struct of texts, NULL fields included: the key of a group."""
    shown = json.dumps(
        dict(zip(names, values, strict=True)), ensure_ascii=False, separators=(",", ":")
    )
    # Spark writes the digits of an escaped control character in upper case.
    return _CONTROL.sub(lambda found: "\\u00" + found[0][4:].upper(), shown)


def _writer(kind: pa.DataType) -> Callable[[Any], str] | None:
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_integer(kind):
        return str
    if kinds.is_boolean(kind):
        return _boolean
    if kinds.is_date32(kind):
        return _date
    if kinds.is_decimal(kind):
        return _decimal
    if kinds.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"):
        return _timestamp
    return None


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _date(value: date) -> str:
    return value.isoformat()


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _timestamp(value: datetime) -> str:
    shown = value.strftime("%H:%M:%S")
    fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
    return f"{value.date().isoformat()} {shown}{fraction}"
