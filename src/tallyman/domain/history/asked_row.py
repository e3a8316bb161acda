"""The row that a question is about: values by column, as text; None is NULL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime

QUOTES = ("'", '"')
AskedRow = Mapping[str, str | None]


def asked_row(values: Mapping[str, object]) -> dict[str, str | None]:
    """Convert the values of a question to text.

    A text is taken as it is, with two exceptions: `null` in any case is NULL, and of a text in
    single or double quotes the outer quotes are removed, so that `'null'` is the text null.
    """
    return {name: _text(value) for name, value in values.items()}


def said(row: AskedRow, between: str = " ") -> str:
    """Write the row as a command line would."""
    return between.join(f"{name}={shown(value)}" for name, value in row.items())


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        if value.lower() == "null":
            return None
        return value[1:-1] if _is_quoted(value) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex().upper()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, date) else str(value)


def shown(value: str | None) -> str:
    """Write a value so that a question can be asked with it: the text null, and a text in quotes,
    are quoted."""
    if value is None:
        return "null"
    return f"'{value}'" if value.lower() == "null" or _is_quoted(value) else value


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] and text[0] in QUOTES
