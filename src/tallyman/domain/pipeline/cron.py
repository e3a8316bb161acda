"""Cron expressions: five fields of numbers, names, ranges, lists and steps, checked as text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tallyman.errors import UsageError

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_DAYS_OF_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class CronField:
    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()

    def values(self, text: str) -> set[int]:
        """Return the values that a field allows."""
        found: set[int] = set()
        for term in text.split(","):
            span, slash, step = term.partition("/")
            if slash and not (_is_number(step) and int(step) > 0):
                raise self.wrong(term, f"the step {step!r} is a number above 0")
            first, last = self._span(span, term, open_end=bool(slash))
            found |= set(range(first, last + 1, int(step) if slash else 1))
        return found

    def _span(self, span: str, term: str, *, open_end: bool) -> tuple[int, int]:
        if span == "*":
            return self.least, self.most
        start, dash, end = span.partition("-")
        first = self._number(start, term)
        last = self._number(end, term) if dash else self.most if open_end else first
        if last < first:
            raise self.wrong(term, "it ends before it begins")
        return first, last

    def _number(self, text: str, term: str) -> int:
        if text.upper() in self.words:
            return self.words.index(text.upper()) + self.least
        if not _is_number(text) or not self.least <= int(text) <= self.most:
            words = f" or {self.words[0]} to {self.words[-1]}" if self.words else ""
            raise self.wrong(term, f"expected {self.least} to {self.most}{words}")
        return int(text)

    def wrong(self, term: str, reason: str) -> UsageError:
        return UsageError(f"schedule: {self.name} {term!r}: {reason}")


FIELDS = (
    CronField("minute", 0, 59),
    CronField("hour", 0, 23),
    CronField("day of the month", 1, 31),
    CronField("month", 1, 12, MONTHS),
    CronField("day of the week", 0, 7, WEEKDAYS),
)


def check_cron(expression: str) -> None:
    """Check an expression; UsageError names the field that is wrong."""
    fields = expression.split()
    if len(fields) != len(FIELDS):
        raise UsageError(
            f"schedule: {expression!r} has {len(fields)} fields; expected five: minute, hour, day "
            "of the month, month, day of the week, such as '0 2 * * *'"
        )
    _, _, days, months, _ = [field.values(text) for field, text in zip(FIELDS, fields, strict=True)]
    # A day of the month and one of the week are alternatives, unless one of them begins with *.
    both = fields[2].startswith("*") or fields[4].startswith("*")
    if both and min(days) > max(_DAYS_OF_MONTH[month - 1] for month in months):
        raise UsageError(f"schedule: {expression!r} is never due: no such month has so many days")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,4}", text) is not None
