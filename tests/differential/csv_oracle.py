"""What a CSV file holds, read character by character: slow, short, and written apart from the
engine."""

from __future__ import annotations

from collections.abc import Iterator

Rows = dict[int, list[str] | None]
"""The fields of each record by its first line; None for a line that is not a record."""


class _NoRecord(Exception):
    pass


def read(text: str, separator: str = ",", quote: str = '"', escape: str = '"') -> Rows:
    """Read records as RFC 4180 has them. Where no record begins, one line is given up."""
    found: Rows = {}
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    number = 0
    while number < len(lines):
        if not lines[number].strip(" \t\r"):
            number += 1
            continue
        try:
            fields, used = _record("\n".join(lines[number:]), separator, quote, escape)
            found[number + 1] = fields
            number += used
        except _NoRecord:
            found[number + 1] = None
            number += 1
    return found


def _record(text: str, separator: str, quote: str, escape: str) -> tuple[list[str], int]:
    at, fields, lines = 0, [], 1
    while True:
        if text.startswith(quote, at):
            value, at = _quoted(text, at + 1, quote, escape)
        else:
            value, at = _bare(text, at, separator, quote)
        lines += value.count("\n")
        fields.append(value)
        if text.startswith(separator, at):
            at += len(separator)
            continue
        if text.startswith("\r", at) and (at + 1 == len(text) or text[at + 1] == "\n"):
            at += 1
        if at == len(text) or text[at] == "\n":
            return fields, lines
        raise _NoRecord


def _quoted(text: str, at: int, quote: str, escape: str) -> tuple[str, int]:
    value = ""
    while at < len(text):
        if text[at] == escape and text[at + 1 : at + 2] in (quote, escape):
            value += text[at + 1]
            at += 2
        elif text[at] == quote:
            return value, at + 1
        elif text[at] == "\0":
            raise _NoRecord
        elif text[at] == escape and quote != escape:
            value += text[at : at + 2]
            at += 2
        else:
            value += text[at]
            at += 1
    raise _NoRecord


def _bare(text: str, at: int, separator: str, quote: str) -> tuple[str, int]:
    start = at
    while at < len(text) and not text.startswith(separator, at) and text[at] not in "\r\n":
        if text[at] == quote:
            raise _NoRecord
        at += 1
    return text[start:at], at


def records(rows: Rows, fields: int) -> Iterator[tuple[int, tuple[str | None, ...] | None]]:
    """Give the records with as many fields as declared; the others are rejected. What is empty is
    NULL, quoted or not."""
    for line, values in rows.items():
        fits = values is not None and len(values) == fields
        yield line, tuple(value or None for value in values) if values and fits else None
