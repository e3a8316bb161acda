"""The dialect of CSV: RFC 4180, or what the options of a source say.

A record is fields with separators between them. A field is bare, without a quote in it, or quoted;
a quoted field may contain separators, line breaks, and quotes that are escaped. Each is written
here as regular expressions over one line, for a line that begins outside of a quoted field and for
one that begins inside. Spark and DuckDB apply the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

FIRST = "_tm_first"
"""The column with the first line of the record to which a line belongs."""


@dataclass(frozen=True)
class CsvDialect:
    separator: str = ","
    quote: str = '"'
    escape: str = '"'

    @classmethod
    def of(cls, options: Mapping[str, str]) -> CsvDialect:
        """Read the options of a source, by Spark's names for them."""
        given = {name.lower(): value for name, value in options.items()}
        quote = given.get("quote", '"')
        separator = given.get("sep", given.get("delimiter", ","))
        return cls(separator, quote, given.get("escape", quote))

    # ---- one line ---------------------------------------------------------------------------

    @cached_property
    def _content(self) -> str:
        """Match what may be between two quotes, without NUL, which Spark's parser would drop."""
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        if quote == escape:
            return rf"[^{quote}\x00]*+(?:{quote}{quote}[^{quote}\x00]*+)*+"
        return rf"[^{quote}{escape}\x00]*+(?:{escape}[^\x00][^{quote}{escape}\x00]*+)*+"

    @property
    def _field(self) -> str:
        quote, separator = re.escape(self.quote), re.escape(self.separator)
        bare = rf"[^{quote}{separator}\r\n]*+"
        if len(self.separator) > 1:
            bare = rf"(?:(?!{separator})[^{quote}\r\n])*+"
        return rf"(?:{quote}{self._content}{quote}|{bare})"

    @property
    def _more(self) -> str:
        return f"(?:{re.escape(self.separator)}{self._field})*+"

    @property
    def whole(self) -> str:
        """Match a record that begins and ends here, with the return before the line break."""
        return rf"\A{self._field}{self._more}\r?\z"

    @property
    def bare_record(self) -> str:
        """Match a record whose return was taken off: another one is part of no field."""
        return rf"\A{self._field}{self._more}\z"

    @property
    def opens(self) -> str:
        """Match a line whose last field is quoted and not closed."""
        before = f"(?:{self._field}{re.escape(self.separator)})*+"
        return rf"\A{before}{re.escape(self.quote)}{self._content}\z"

    def leaves_open(self, line: str) -> bool:
        """True if the last field of the line is quoted and not closed."""
        return self.quote in line and re.search(_for_python(self.opens), line) is not None

    @property
    def stays(self) -> str:
        """Match a line inside of a quoted field that does not close it."""
        return rf"\A{self._content}\z"

    @property
    def closes(self) -> str:
        """Match a line that closes the field it begins in, and leaves none open."""
        return rf"\A{self._content}{re.escape(self.quote)}{self._more}\r?\z"

    @property
    def reopens(self) -> str:
        """Match a line that closes the field it begins in, and leaves another one open."""
        quote, separator = re.escape(self.quote), re.escape(self.separator)
        closed = f"{self._content}{quote}{separator}(?:{self._field}{separator})*+"
        return rf"\A{closed}{quote}{self._content}\z"

    def cells(self, record: str) -> list[str] | None:
        """Return the values of a record's fields, its return taken off; None if it is no record."""
        if not self.quote:
            return record.split(self.separator)
        if not re.search(_for_python(self.bare_record), record):
            return None
        found = re.findall(_for_python(self.each), record + self.separator)
        return [self.bare(cell) for cell in found]

    @property
    def each(self) -> str:
        """Match one field and the separator behind it."""
        return f"({self._field}){re.escape(self.separator)}"

    def bare(self, cell: str) -> str:
        """Return the value of a field as it is written."""
        if not cell.startswith(self.quote):
            return cell
        inside = cell[1:-1]
        if self.quote == self.escape:
            return inside.replace(self.quote * 2, self.quote)
        return inside.replace(self.escape + self.quote, self.quote).replace(
            self.escape * 2, self.escape
        )

    # ---- lines of one file ------------------------------------------------------------------

    def grouping(self, sql: Sql) -> list[dict[str, str]]:
        """List the columns to add to lines, step by step, to know the first line of each record.

        A quoted field that is open at the end of a line goes on in the next one. A line changes
        whether the next one begins inside of a field: it keeps that, turns it around, or fixes it.
        So each line knows how it begins from the last line that fixed it and the turns since. An
        open field that no later line could close was not meant to be one: it stands alone, and its
        line is not a record.
        """
        quoted = f"contains({sql.text}, {sql.literal(self.quote)})"
        may = {name: sql.matches(getattr(self, name)) for name in ("stays", "closes", "reopens")}
        fixed = "_tm_change IN ('in', 'out')"
        return [
            {
                "_tm_quoted": quoted,
                "_tm_opens": f"{quoted} AND {sql.matches(self.opens)}",
                "_tm_fits": f"NOT {quoted} OR {' OR '.join(may.values())}",
                "_tm_goes_on": f"NOT {quoted} OR {may['stays']} OR {may['reopens']}",
            },
            {
                "_tm_later": "coalesce("
                + sql.last("CASE WHEN _tm_quoted THEN _tm_fits END", sql.window(" DESC", 1))
                + ", false)"
            },
            {
                "_tm_out": "_tm_opens AND _tm_later",
                "_tm_in": "CASE WHEN NOT _tm_quoted THEN true "
                "WHEN _tm_fits THEN _tm_goes_on AND _tm_later ELSE _tm_opens AND _tm_later END",
            },
            {
                "_tm_change": "CASE WHEN _tm_out AND _tm_in THEN 'in' WHEN _tm_out THEN 'turn' "
                "WHEN NOT _tm_in THEN 'out' END"
            },
            {
                "_tm_turns": "coalesce(sum(CASE WHEN _tm_change = 'turn' THEN 1 ELSE 0 END) OVER "
                f"{sql.window('', 1)}, 0)"
            },
            {
                "_tm_fixed": sql.last(
                    f"CASE WHEN {fixed} THEN _tm_change = 'in' END", sql.window("", 1)
                ),
                "_tm_since": sql.last(f"CASE WHEN {fixed} THEN _tm_turns END", sql.window("", 1)),
            },
            {
                "_tm_inside": "_tm_fits AND (CASE WHEN _tm_fixed THEN 1 ELSE 0 END "
                "+ _tm_turns - coalesce(_tm_since, 0)) % 2 = 1"
            },
            {FIRST: sql.last(f"CASE WHEN NOT _tm_inside THEN {sql.number} END", sql.window("", 0))},
        ]


@dataclass(frozen=True, slots=True)
class Sql:
    """The words of Spark or DuckDB, and the names of the columns of a line."""

    file: str
    number: str
    text: str
    literal: Callable[[str], str]
    matches: Callable[[str], str]
    """Write a condition that the text of a line matches a regular expression."""
    last: Callable[[str, str], str]
    """Write the last value that is not NULL in a window."""

    def window(self, order: str, before: int) -> str:
        until = f"{before} PRECEDING" if before else "CURRENT ROW"
        return (
            f"(PARTITION BY {self.file} ORDER BY {self.number}{order} "
            f"ROWS BETWEEN UNBOUNDED PRECEDING AND {until})"
        )


def _for_python(pattern: str) -> str:
    return pattern.replace(r"\z", r"\Z")
