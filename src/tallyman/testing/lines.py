"""Records as lines of JSON and CSV, with Python's values as a file would have them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from tallyman.engine.source.csv_dialect import CsvDialect


def json_line(record: Mapping[str, Any]) -> str:
    return _json(record)


def _json(value: object) -> str:
    """Write a value as json.dumps does, with exact decimals, and dates and bytes as Spark reads
    them."""
    match value:
        case Mapping():
            fields = (f"{json.dumps(str(k))}: {_json(v)}" for k, v in value.items())
            return f"{{{', '.join(fields)}}}"
        case list() | tuple():
            return f"[{', '.join(map(_json, value))}]"
        case Decimal() if value.is_finite():
            return format(value, "f")
        case date():
            return json.dumps(value.isoformat())
        case bytes():
            return json.dumps(b64encode(value).decode())
        case None | bool() | int() | float() | str():
            return json.dumps(value, ensure_ascii=False)
    raise ValueError(f"{value!r} cannot be written as JSON")


def csv_line(record: Mapping[str, Any], columns: Sequence[str], options: Mapping[str, str]) -> str:
    """Write a record so that Spark's CSV reader, with the options of the source, reads it back."""
    separator = options.get("sep", options.get("delimiter", ","))
    return separator.join(_csv(record.get(name), separator, options) for name in columns)


def _csv(value: object, separator: str, options: Mapping[str, str]) -> str:
    dialect = CsvDialect.of(options)
    quote, escape = dialect.quote, dialect.escape
    nothing = options.get("nullValue", "")
    if value is None:
        return nothing
    text = _text(value)
    plain = text != nothing and text == text.strip()
    specials = (separator, quote, escape, "\n", "\r")
    if plain and not any(special in text for special in specials if special):
        return text
    for special in dict.fromkeys([escape, quote]):
        text = text.replace(special, escape + special)
    return f"{quote}{text}{quote}"


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case Decimal() if value.is_finite():
            return format(value, "f")
        case date():  # an instant is one too
            return value.isoformat()
        case int() | float() | str():
            return str(value)
    raise ValueError(f"{value!r} cannot be written as CSV")
