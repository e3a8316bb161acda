"""Columns of Parquet files, read in the type of the file and converted to the wanted one."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tallyman.engine.files.parquet_types import COUNTS, NANOSECONDS, NOTHING, ColumnType


def as_read(found: ColumnType) -> ColumnType:
    """Return the type in which Spark reads a file's column: counts are numbers to it."""
    inside = tuple((name, as_read(kind)) for name, kind in found.inside)
    name = "bigint" if found.name in COUNTS else found.name
    return ColumnType("int" if name == NOTHING else name, inside)


def widened(value: Column, found: ColumnType, wanted: ColumnType) -> Column:
    """Convert a value, and the values inside it; a field that the file lacks is NULL."""
    if found == wanted:
        return value
    if found.name == NOTHING:
        return F.lit(None).cast(str(wanted))
    if found.name in NANOSECONDS and wanted.name != "bigint":
        whole = F.when(value % 1_000 == 0, F.expr("1000"))
        # Spark counts NTZ timestamps in the session's time zone, which is UTC.
        return F.timestamp_micros(F.call_function("div", value, whole)).cast(wanted.name)
    if wanted.name == "struct" and found.inside:
        there = found.fields
        fields = [
            widened(value.getField(name), there[name], kind).alias(name)
            if name in there
            else F.lit(None).cast(str(kind)).alias(name)
            for name, kind in wanted.inside
        ]
        return F.when(value.isNotNull(), F.struct(*fields))
    if wanted.name == "array" and found.inside:
        [(_, own)], [(_, other)] = found.inside, wanted.inside
        return F.transform(value, lambda element: widened(element, own, other))
    if wanted.name == "map" and found.inside:
        return _widened_map(value, found.fields, wanted.fields)
    return value.cast(str(wanted))


def _widened_map(
    value: Column, found: dict[str, ColumnType], wanted: dict[str, ColumnType]
) -> Column:
    if found["key"] != wanted["key"]:
        own, other = found["key"], wanted["key"]
        value = F.transform_keys(value, lambda key, _: widened(key, own, other))
    if found["value"] != wanted["value"]:
        mine, theirs = found["value"], wanted["value"]
        value = F.transform_values(value, lambda _, each: widened(each, mine, theirs))
    return value
