"""Values that no output can hold: their records are rejected at the door.

Parquet, Arrow, Python and Iceberg have no date outside the years 1 to 9999, and Spark no time finer
than a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from tallyman.engine.expressions.column_names import UNFIT
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

Test = Callable[[Column, str], "Column | None"]
"""A test of one plain value, by the name of its type; None if every value of the type passes."""


@dataclass(frozen=True, slots=True)
class UnfitColumn:
    """A column of which some values do not fit: which ones, and how they are shown."""

    name: str
    wrong: Column
    shown: Column


def dated(field: StructField) -> bool:
    """True if the column, or something inside it, is a date or a timestamp."""
    return of_spark(field.dataType.jsonValue()).any(LIMITS)


def outside_years(
    fields: Iterable[StructField], value: Callable[[str], Column], redaction: Redaction
) -> list[UnfitColumn]:
    """Test the columns with dates; `value` gives the typed column of a name."""
    found = []
    for field in filter(dated, fields):
        wrong = far_years(value(field.name), of_spark(field.dataType.jsonValue()))
        assert wrong is not None
        shown = redaction.shown(field.name, value(field.name))
        found.append(UnfitColumn(field.name, wrong, shown))
    return found


def far_years(value: Column, kind: ColumnType) -> Column | None:
    """Test for years outside 1 to 9999; None if the type has no years."""
    return _anywhere(value, kind, _far)


def split_microseconds(value: Column, kind: ColumnType) -> Column | None:
    """Test counts of nanoseconds for a part of a microsecond; None if there are none."""
    return _anywhere(value, kind, _split)


def _far(value: Column, kind: str) -> Column | None:
    if kind not in LIMITS:
        return None
    first, last = map(F.expr, LIMITS[kind])
    return (value < first) | (value > last)


def _split(value: Column, kind: str) -> Column | None:
    return (value % 1_000 != 0) if kind in NANOSECONDS else None


def nanosecond_text(value: Column) -> Column:
    """Write a count of nanoseconds as a time with nine decimals."""
    rest = F.pmod(value, F.lit(1_000))
    down = F.when((value < 0) & (rest != 0), 1).otherwise(0)  # `div` rounds towards zero
    micros = F.timestamp_micros(F.call_function("div", value, F.lit(1_000)) - down)
    digits = F.lpad(rest.cast("string"), 3, "0")
    return F.concat(F.date_format(micros, "yyyy-MM-dd HH:mm:ss.SSSSSS"), digits)


def _anywhere(value: Column, kind: ColumnType, test: Test) -> Column | None:
    """Test a value and everything inside it; NULL passes."""
    if not kind.inside:
        found = test(value, kind.name)
        return None if found is None else F.coalesce(found, F.lit(False))
    if kind.name == "struct":
        return either(_anywhere(value.getField(n), each, test) for n, each in kind.inside)
    lists = {"element": value} if kind.name == "array" else {}
    if kind.name == "map":
        lists = {"key": F.map_keys(value), "value": F.map_values(value)}
    return either(_in_list(listed, kind.fields[n], test) for n, listed in lists.items())


def _in_list(listed: Column, kind: ColumnType, test: Test) -> Column | None:
    if _anywhere(F.lit(None), kind, test) is None:
        return None

    def wrong(element: Column) -> Column:
        found = _anywhere(element, kind, test)
        assert found is not None
        return found

    return F.coalesce(F.exists(listed, wrong), F.lit(False))


def either(tests: Iterable[Column | None]) -> Column | None:
    found = [test for test in tests if test is not None]
    return reduce(Column.__or__, found) if found else None


KIND = "map<string,string>"


def unfit(columns: Sequence[UnfitColumn]) -> list[Column]:
    """Return the column with a record's unfit values, if there can be any."""
    wrong = either(column.wrong for column in columns)
    if wrong is None:
        return []
    each = [
        F.when(c.wrong, F.struct(F.lit(c.name).alias("name"), c.shown.alias("shown")))
        for c in columns
    ]
    listed = F.map_from_entries(F.array_compact(F.array(*each)))
    return [F.when(wrong, listed).alias(UNFIT)]
