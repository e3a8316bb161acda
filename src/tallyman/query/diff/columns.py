"""Comparison and display of one column of two versions: DuckDB types in, SQL out.

Both sides of a comparison get a form of the same type, and equal forms mean equal values. Forms can
be joined and grouped, so the same SQL decides which rows belong together and what changed.
"""

from __future__ import annotations

from typing import cast

from duckdb.sqltypes import DuckDBPyType

from tallyman.engine.files.duck import quoted
from tallyman.engine.files.duck import text as literal

NESTED = {"array", "list", "map", "struct"}
FLOATS = {"double", "float"}
INTEGERS = {
    *("tinyint", "smallint", "integer", "bigint", "hugeint"),
    *("utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"),
}
NUMBERS = {*FLOATS, *INTEGERS, "decimal"}
ZONED = "timestamp with time zone"
INSTANTS = {"date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", ZONED}
PLAIN = {*NUMBERS, "blob", "boolean", "uuid", "varchar"}
"""Types that Python has too. Not dates and timestamps: DuckDB's range is larger than Python's, and
time zones need a package that we do not depend on."""


def forms(name: str, before: DuckDBPyType, after: DuckDBPyType) -> tuple[str, str]:
    """Return SQL for the column on each side.

    For the same type, compare the value. NULL equals NULL, NaN equals NaN, -0.0 equals 0.0 (as
    DuckDB and Spark group them), and maps are equal regardless of the order of their entries.

    For different types, numbers are equal as numbers (1, 1.00 and 1.0 are), dates and timestamps as
    instants in UTC (a date is its midnight), and everything else by its text.
    """
    value = quoted(name)
    if str(before) == str(after):
        return ordered(value, before), ordered(value, after)
    kinds = {before.id, after.id}
    if kinds <= NUMBERS and kinds & FLOATS and not kinds & INTEGERS:
        return f"CAST({value} AS DOUBLE)", f"CAST({value} AS DOUBLE)"
    if kinds <= NUMBERS:
        return number(value, before), number(value, after)
    if kinds <= INSTANTS:
        return instant(value, before), instant(value, after)
    return f"CAST({value} AS VARCHAR)", f"CAST({value} AS VARCHAR)"


def ordered(value: str, of: DuckDBPyType, depth: int = 0) -> str:
    """Return the value with the entries of all maps sorted: files keep them in any order."""
    if not _holds_map(of):
        return value
    if of.id == "map":
        key = ordered(f"e{depth}.key", _child(of, "key"), depth + 1)
        held = ordered(f"e{depth}.value", _child(of, "value"), depth + 1)
        each = f"{{'key': {key}, 'value': {held}}}"
        return f"list_sort(list_transform(map_entries({value}), lambda e{depth}: {each}))"
    if of.id == "struct":
        fields = ", ".join(
            f"{literal(name)}: {ordered(f'struct_extract({value}, {literal(name)})', field, depth)}"
            for name, field in _children(of)
        )
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE {{{fields}}} END"
    each = ordered(f"e{depth}", _child(of, "child"), depth + 1)
    return f"list_transform({value}, lambda e{depth}: {each})"


def number(value: str, of: DuckDBPyType) -> str:
    """Return text that is the same for equal numbers of any exact type, with any number of digits,
    and for whole numbers in floats. Compared as floats, 2^53 and 2^53 + 1 would be equal."""
    text = f"CAST({value} AS VARCHAR)"
    if of.id in FLOATS:
        whole = f"CAST(TRY_CAST({value} AS HUGEINT) AS VARCHAR)"
        return f"CASE WHEN {value} = trunc({value}) THEN coalesce({whole}, {text}) ELSE {text} END"
    if of.id == "decimal" and dict(of.children)["scale"]:
        with_zero = rf"regexp_replace({text}, '^(-?)[.]', '\10.')"  # DuckDB may write 0.50 as .50
        return f"rtrim(rtrim({with_zero}, '0'), '.')"
    return text


def instant(value: str, of: DuckDBPyType) -> str:
    if of.id == "date":
        return f"CAST({value} AS VARCHAR) || ' 00:00:00'"
    zone = " AT TIME ZONE 'UTC'" if of.id == ZONED else ""
    return f"CAST({value}{zone} AS VARCHAR)"


def shown(name: str, of: DuckDBPyType) -> str:
    """Return SQL for a value that Python and JSON can hold: instants and map keys as text."""
    return f"CAST({quoted(name)} AS {_shown_type(of)})"


def _shown_type(of: DuckDBPyType) -> str:
    if of.id == "struct":
        fields = ", ".join(f"{quoted(name)} {_shown_type(field)}" for name, field in _children(of))
        return f"STRUCT({fields})"
    if of.id == "map":
        return f"MAP(VARCHAR, {_shown_type(_child(of, 'value'))})"
    if of.id in {"array", "list"}:
        return f"{_shown_type(_child(of, 'child'))}[]"
    return str(of) if of.id in PLAIN else "VARCHAR"


def _holds_map(of: DuckDBPyType) -> bool:
    return of.id == "map" or any(_holds_map(child) for _, child in _children(of))


def _child(of: DuckDBPyType, name: str) -> DuckDBPyType:
    return dict(_children(of))[name]


def _children(of: DuckDBPyType) -> list[tuple[str, DuckDBPyType]]:
    """Return the nested types: `children` also holds the length of an array and the digits of a
    decimal, and raises for other types."""
    if of.id not in NESTED:
        return []
    return [
        (name, cast("DuckDBPyType", child))
        for name, child in of.children
        if not isinstance(child, int)
    ]
