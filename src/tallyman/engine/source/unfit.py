"""Values that no output can hold: their records are rejected at the door.

Parquet, Arrow, Python and Iceberg have no date outside the years 1 to 9999, and Spark no time finer
than a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql.types import StructField

from tallyman.engine.expressions.column_names import ELEMENT, UNFIT, literal, quoted
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.parquet_types import NANOSECONDS, ColumnType, of_spark

YEARS = "the years 1 to 9999"
WHOLE = "whole microseconds"
LIMITS = {
    "date": ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    "timestamp": (
        "TIMESTAMP'0001-01-01 00:00:00 UTC'",
        "TIMESTAMP'9999-12-31 23:59:59.999999 UTC'",
    ),
    "timestamp_ntz": (
        "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
    ),
}
"""The first and the last value of each type with a calendar."""

Test = Callable[[str, str], "str | None"]
"""A test of one plain value in SQL, by the name of its type; None if every value of the type
passes.
"""


@dataclass(frozen=True, slots=True)
class UnfitColumn:
    """A column of which some values do not fit: which ones, and how they are shown, in SQL."""

    name: str
    wrong: str
    shown: str


def dated(field: StructField) -> bool:
    """True if the column, or something inside it, is a date or a timestamp."""
    return of_spark(field.dataType.jsonValue()).any(LIMITS)


def outside_years(
    fields: Iterable[StructField], value: Callable[[str], str], redaction: Redaction
) -> list[UnfitColumn]:
    """Test the columns with dates; `value` gives the typed column of a name."""
    found = []
    for field in filter(dated, fields):
        wrong = far_years(value(field.name), of_spark(field.dataType.jsonValue()))
        assert wrong is not None
        shown = redaction.shown(field.name, value(field.name))
        found.append(UnfitColumn(field.name, wrong, shown))
    return found


def far_years(value: str, kind: ColumnType) -> str | None:
    """Test for years outside 1 to 9999; None if the type has no years."""
    return _anywhere(value, kind, _far)


def split_microseconds(value: str, kind: ColumnType) -> str | None:
    """Test counts of nanoseconds for a part of a microsecond; None if there are none."""
    return _anywhere(value, kind, _split)


def _far(value: str, kind: str) -> str | None:
    if kind not in LIMITS:
        return None
    first, last = LIMITS[kind]
    return f"{value} < {first} OR {value} > {last}"


def _split(value: str, kind: str) -> str | None:
    return f"{value} % 1000 <> 0" if kind in NANOSECONDS else None


def nanosecond_text(value: str) -> str:
    """Write a count of nanoseconds as a time with nine decimals."""
    rest = f"pmod({value}, 1000)"
    down = f"CASE WHEN {value} < 0 AND {rest} <> 0 THEN 1 ELSE 0 END"  # `div` rounds towards zero
    micros = f"timestamp_micros(({value} div 1000) - {down})"
    digits = f"lpad(CAST({rest} AS STRING), 3, '0')"
    return f"concat(date_format({micros}, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), {digits})"


def _anywhere(value: str, kind: ColumnType, test: Test) -> str | None:
    """Test a value and everything inside it; NULL passes."""
    if not kind.inside:
        found = test(value, kind.name)
        return None if found is None else f"coalesce({found}, false)"
    if kind.name == "struct":
        inside = kind.inside
        return either(_anywhere(f"({value}).{quoted(n)}", each, test) for n, each in inside)
    lists = {"element": value} if kind.name == "array" else {}
    if kind.name == "map":
        lists = {"key": f"map_keys({value})", "value": f"map_values({value})"}
    return either(_in_list(listed, kind.fields[n], test) for n, listed in lists.items())


def _in_list(listed: str, kind: ColumnType, test: Test) -> str | None:
    wrong = _anywhere(ELEMENT, kind, test)
    return None if wrong is None else f"coalesce(exists({listed}, {ELEMENT} -> {wrong}), false)"


def either(tests: Iterable[str | None]) -> str | None:
    found = [test for test in tests if test is not None]
    return f"({' OR '.join(found)})" if found else None


KIND = "map<string,string>"


def unfit(columns: Sequence[UnfitColumn]) -> list[str]:
    """Write the column with a record's unfit values, if there can be any."""
    wrong = either(column.wrong for column in columns)
    if wrong is None:
        return []
    named = [(f"named_struct('name', {literal(c.name)}, 'shown', {c.shown})", c) for c in columns]
    each = ", ".join(f"CASE WHEN {c.wrong} THEN {entry} END" for entry, c in named)
    listed = f"map_from_entries(array_compact(array({each})))"
    return [f"CASE WHEN {wrong} THEN {listed} END AS {UNFIT}"]
