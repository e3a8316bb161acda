"""Partitions: which slices of an asset exist, and their form as key, folder and SQL."""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from urllib.parse import quote

from tallyman.errors import UsageError
from tallyman.errors.wording import nearest

KEY_LENGTH = 255
"""The length of a partition column in the registry."""

PART_LENGTH = 100
"""The longest half of a folder name; file systems allow 255 bytes for the whole name."""

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def encode(value: date | str) -> str:
    """Encode a value as its only key; a tag marks everything but plain text, for `decode`."""
    if isinstance(value, date):
        return f"d:{value.isoformat()}"
    plain = value.isprintable() and value and not set(value) & {":", "|"}
    key = value if plain else "s:" + _base64(value)
    if len(key) > KEY_LENGTH:
        shown = f"{key[:40]}…"
        raise UsageError(f"partition {shown!r} has {len(key)} characters; {KEY_LENGTH} are allowed")
    return key


def decode(text: str) -> date | str:
    """Decode a key to its value; another spelling of the same value is not a key."""
    tag, sign, rest = text.partition(":")
    try:
        value = _read(tag, rest) if sign else text
        canonical = encode(value)
    except (ValueError, UsageError):
        raise UsageError(f"{text!r} is not a partition key") from None
    if canonical != text:
        raise UsageError(f"{text!r} is not a partition key; the key is {canonical!r}")
    return value


def _read(tag: str, rest: str) -> date | str:
    if tag == "d":
        return date.fromisoformat(rest)
    if tag == "s":
        return _unbase64(rest)
    raise ValueError(tag)


def _base64(text: str) -> str:
    try:
        return urlsafe_b64encode(text.encode()).decode().rstrip("=")
    except UnicodeEncodeError:
        raise UsageError(f"partition {text!r} is not valid Unicode") from None


def _unbase64(text: str) -> str:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The column that assigns rows to slices, and the slices that exist."""

    column: str
    kind: str
    start: date | None = None
    end: date | None = None
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.column:
            raise UsageError("partitions: name the column")
        if self.kind == "daily":
            if self.start is None or self.values:
                raise UsageError(f"partitions of {self.column!r}: daily partitions need a start")
            if self.end is not None and self.end < self.start:
                raise UsageError(
                    f"partitions of {self.column!r}: the end {self.end} is before {self.start}"
                )
        elif self.kind == "strings":
            _check_values(self.column, self.values)
        else:
            raise UsageError(f"partitions are 'daily' or 'strings', not {self.kind!r}")

    def parse(self, text: str) -> str:
        """Convert what a person typed, or a key, to the key; UsageError lists what is allowed."""
        return self._parse_day(text) if self.kind == "daily" else self._parse_value(text)

    def keys(self, first: str | None = None, last: str | None = None) -> list[str]:
        """List the keys of a backfill from `first` to `last`, both included, in order."""
        every = self._days(first, last) if self.kind == "daily" else self._between(first, last)
        if not every:
            raise UsageError(f"partitions of {self.column!r}: {last} comes before {first}")
        return every

    def value(self, key: str) -> date | str:
        found = decode(key)
        if isinstance(found, date) == (self.kind == "daily"):
            return found
        expected = "a date" if self.kind == "daily" else "text"
        raise UsageError(f"{key!r} is not a partition of {self.column!r}: expected {expected}")

    def text(self, key: str) -> str:
        """Show a key to people, and in `{partition}` of a source's path."""
        return str(self.value(key))

    def folder(self, key: str) -> str:
        """Name a folder `column=value`, safe and distinct for each key."""
        return f"{_percent(self.column)}={_percent(self.text(key))}"

    def literal(self, key: str) -> str:
        """Write the value as a literal of Spark SQL."""
        value = self.value(key)
        if isinstance(value, date):
            return f"DATE '{value.isoformat()}'"
        # Spark replaces `${…}` by a setting even inside a string, before it parses the SQL.
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
        return f"'{escaped}'"

    def _parse_day(self, text: str) -> str:
        try:
            day = _day(text.removeprefix("d:"))
        except UsageError:
            raise UsageError(
                f"partition {text!r} of {self.column!r}: give a day like {self.start}"
            ) from None
        assert self.start is not None
        if day < self.start or (self.end is not None and day > self.end):
            span = f"from {self.start}" + (f" to {self.end}" if self.end else " on")
            raise UsageError(f"partition {text!r} of {self.column!r}: the days are {span}")
        return encode(day)

    def _parse_value(self, text: str) -> str:
        # Try keys first: what parse returned must mean the same when it is parsed again.
        for value in self.values:
            if text == encode(value):
                return text
        if text in self.values:
            return encode(text)
        near = nearest(text, self.values)
        some = ", ".join(self.values[:5]) + (", …" if len(self.values) > 5 else "")
        meant = f"Did you mean {near!r}?" if near else f"There are {some}."
        raise UsageError(f"there is no partition {text!r} of {self.column!r}. {meant}")

    def _days(self, first: str | None, last: str | None) -> list[str]:
        if last is None and self.end is None:
            raise UsageError(f"the days of {self.column!r} have no end: give the last one as --to")
        begin = self.start if first is None else self.value(self.parse(first))
        end = self.end if last is None else self.value(self.parse(last))
        assert isinstance(begin, date)
        assert isinstance(end, date)
        return [encode(begin + timedelta(days=n)) for n in range((end - begin).days + 1)]

    def _between(self, first: str | None, last: str | None) -> list[str]:
        every = [encode(value) for value in self.values]
        begin = 0 if first is None else every.index(self.parse(first))
        end = len(every) - 1 if last is None else every.index(self.parse(last))
        return every[begin : end + 1]


def daily(column: str, start: date | str, end: date | str | None = None) -> Partitioning:
    """Declare one partition per day, from `start` to `end`, both included, or without an end."""
    return Partitioning(
        column=column, kind="daily", start=_day(start), end=None if end is None else _day(end)
    )


def partitions(column: str, values: Sequence[str]) -> Partitioning:
    """Declare one partition per value, in this order."""
    if isinstance(values, str):
        raise UsageError(f"partitions of {column!r}: give a list of values, not one text")
    return Partitioning(column=column, kind="strings", values=tuple(values))


def _day(given: date | str) -> date:
    if isinstance(given, date) and not isinstance(given, datetime):
        return given
    try:
        if isinstance(given, str) and _DATE.fullmatch(given):
            return date.fromisoformat(given)
    except ValueError:
        pass
    raise UsageError(f"{given!r} is not a day; write it like 2025-01-31")


def _check_values(column: str, values: tuple[str, ...]) -> None:
    where = f"partitions of {column!r}"
    if not values:
        raise UsageError(f"{where}: give at least one value")
    for value in values:
        if not isinstance(value, str) or not value:
            raise UsageError(f"{where}: a value must be text and not empty, not {value!r}")
    for first, second in pairwise(sorted(values)):
        if first == second:
            raise UsageError(f"{where}: {first!r} is listed twice")
    for value in values:
        if (key := encode(value)) != value and key in values:
            raise UsageError(f"{where}: {key!r} is also the key of {value!r}; leave one out")


def _percent(text: str) -> str:
    name = quote(text, safe="").replace("~", "%7E")
    if len(name) <= PART_LENGTH:
        return name
    # `%-` is not a percent encoding, so a shortened name cannot equal a whole one.
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{name[: PART_LENGTH - 66]}%-{digest}"
