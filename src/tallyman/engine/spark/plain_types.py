"""Types that Parquet files hold completely, so that other readers see the values Spark sees."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import DataType, DecimalType, StructField

PLAIN = {
    "string",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
}


def is_plain(fields: Iterable[StructField]) -> bool:
    """True if no field has a type that only Spark knows, such as an interval or a collation."""
    return all(map(_plain, (field.dataType for field in fields)))


def _plain(kind: DataType) -> bool:
    return isinstance(kind, DecimalType) or kind.simpleString() in PLAIN
