"""The values of a table's columns: their types in Arrow and DuckDB, and which values fit.

A value fits if it keeps its meaning. A value that would be cut, rounded or guessed does not fit.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from tallyman.domain.version.table import Table

BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

_ARROW: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}
_DATE = r"(?:[1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])-\d\d-\d\d"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?"
_ZONE = r"(?:Z|[+-]\d\d(?::?\d\d)?)?"
_TEXTS = {
    "boolean": "(?i:true|false)",
    "date": _DATE,
    "timestamp": f"{_DATE}(?:[ T]{_TIME}{_ZONE})?",
    "timestamp_ntz": f"{_DATE}(?:[ T]{_TIME})?",
    "float": r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:nan|[+-]?inf(?:inity)?)",
    "binary": r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
}
_WHOLE = r"[+-]?\d+"


def decimal_digits(type: str) -> tuple[int, int] | None:
    """Return the number of digits, and of digits after the point; None for another type."""
    match = re.fullmatch(r"decimal\((\d+),(\d+)\)", type)
    return (int(match[1]), int(match[2])) if match else None


def arrow_type(type: str) -> pa.DataType:
    pieces = decimal_digits(type)
    return pa.decimal128(*pieces) if pieces else _ARROW[type]


def arrow_schema(table: Table) -> pa.Schema:
    return pa.schema(
        [pa.field(c.name, arrow_type(c.type), nullable=c.nullable) for c in table.columns]
    )


def text_pattern(type: str) -> str:
    """Return a regular expression, for Python and RE2, of texts that mean a value of the type."""
    if pieces := decimal_digits(type):
        return rf"[+-]?(?:\d+(?:\.\d{{0,{pieces[1]}}}0*)?|\.\d{{1,{max(pieces[1], 1)}}}0*)"
    if type in BITS:
        return _WHOLE
    return _TEXTS.get("float" if type == "double" else type, r"(?s:.*)")


def typed(type: str, value: object) -> object:
    """Convert a value to what Arrow accepts for the type; ValueError if it does not fit."""
    if value is None:
        return None
    if pieces := decimal_digits(type):
        return _decimal(value, *pieces)
    if type in BITS:
        return _whole(value, BITS[type])
    return _TYPED[type](value)


def _whole(value: object, bits: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("not a whole number")
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError("out of range")
    return value


def _decimal(value: object, digits: int, scale: int) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise ValueError("not a number")
    try:
        # The shortest text of a float is what was written, as long as it has few digits.
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise ValueError("not a number") from None
    if not number.is_finite():
        raise ValueError("not a number")
    figures = number.as_tuple()
    if isinstance(value, float) and len(figures.digits) > 15:
        raise ValueError("too many digits for a float; write it as text")
    if number != 0:
        plain = number.normalize().as_tuple() if len(figures.digits) <= 28 else figures
        exponent = int(plain.exponent)
        if exponent < -scale or len(plain.digits) + exponent > digits - scale:
            raise ValueError("does not fit without rounding")
    return number


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("not a valid text") from None
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _double(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueError("not a number")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError("out of range") from None
    if isinstance(value, int) and number != value:
        raise ValueError("does not fit without rounding")
    if math.isinf(number) and not (isinstance(value, float) and math.isinf(value)):
        raise ValueError("out of range")
    return number


def _float(value: object) -> float:
    number = _double(value)
    try:
        nearest = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise ValueError("out of range") from None
    if isinstance(value, int) and nearest != value:
        raise ValueError("does not fit without rounding")
    return number


def _date(value: object) -> date:
    if isinstance(value, str) and re.fullmatch(_DATE, value, re.ASCII):
        return date.fromisoformat(value)
    if not isinstance(value, date) or isinstance(value, datetime):
        raise ValueError("not a date: write YYYY-MM-DD")
    return value


def _instant(value: object) -> datetime:
    moment = _moment(value, "timestamp")
    try:
        # Without a zone it is UTC: the time zone of every Tallyman session.
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError("out of range") from None


def _local(value: object) -> datetime:
    moment = _moment(value, "timestamp_ntz")
    if moment.tzinfo is not None:
        raise ValueError("it has a time zone, but the column has none")
    return moment


def _moment(value: object, type: str) -> datetime:
    if isinstance(value, str) and re.fullmatch(_TEXTS[type], value, re.ASCII):
        return datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        raise ValueError("not a time: write YYYY-MM-DD HH:MM:SS, at most 6 digits of a second")
    return value


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise ValueError("not bytes: write them in base64")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ValueError("not bytes: write them in base64") from None


_TYPED: Mapping[str, Callable[[object], object]] = {
    "string": _text,
    "boolean": _boolean,
    "float": _float,
    "double": _double,
    "date": _date,
    "timestamp": _instant,
    "timestamp_ntz": _local,
    "binary": _bytes,
}
