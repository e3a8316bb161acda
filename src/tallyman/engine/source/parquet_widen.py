"""Columns of Parquet files, read in the type of the file and converted to the wanted one."""

from __future__ import annotations

from tallyman.engine.expressions.column_names import ELEMENT, literal, quoted
from tallyman.engine.files.parquet_types import COUNTS, NANOSECONDS, NOTHING, ColumnType


def as_read(found: ColumnType) -> ColumnType:
    """Return the type in which Spark reads a file's column: counts are numbers to it."""
    inside = tuple((name, as_read(kind)) for name, kind in found.inside)
    name = "bigint" if found.name in COUNTS else found.name
    return ColumnType("int" if name == NOTHING else name, inside)


def widened(value: str, found: ColumnType, wanted: ColumnType) -> str:
    """Write in SQL a value, and the values inside it, in the wanted type; a field that the file
    lacks is NULL.
    """
    if found == wanted:
        return value
    if found.name == NOTHING:
        return _null(wanted)
    if found.name in NANOSECONDS and wanted.name != "bigint":
        whole = f"CASE WHEN {value} % 1000 = 0 THEN 1000 END"
        # Spark counts NTZ timestamps in the session's time zone, which is UTC.
        return f"CAST(timestamp_micros({value} div {whole}) AS {wanted.name})"
    if wanted.name == "struct" and found.inside:
        there = found.fields
        fields = {
            name: widened(f"{value}.{quoted(name)}", there[name], kind)
            if name in there
            else _null(kind)
            for name, kind in wanted.inside
        }
        listed = ", ".join(f"{literal(name)}, {field}" for name, field in fields.items())
        return f"CASE WHEN {value} IS NOT NULL THEN named_struct({listed}) END"
    if wanted.name == "array" and found.inside:
        [(_, own)], [(_, other)] = found.inside, wanted.inside
        return f"transform({value}, {ELEMENT} -> {widened(ELEMENT, own, other)})"
    if wanted.name == "map" and found.inside:
        return _widened_map(value, found.fields, wanted.fields)
    return f"CAST({value} AS {wanted})"


def _null(kind: ColumnType) -> str:
    return f"CAST(NULL AS {kind})"


def _widened_map(value: str, found: dict[str, ColumnType], wanted: dict[str, ColumnType]) -> str:
    if found["key"] != wanted["key"]:
        key = widened("_tm_k", found["key"], wanted["key"])
        value = f"transform_keys({value}, (_tm_k, _tm_v) -> {key})"
    if found["value"] != wanted["value"]:
        each = widened("_tm_v", found["value"], wanted["value"])
        value = f"transform_values({value}, (_tm_k, _tm_v) -> {each})"
    return value
