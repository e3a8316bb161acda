"""Metrics of columns, as aggregates for the scan that the door makes of a text input anyway."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    MapType,
    NumericType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from tallyman.domain.account.column_metrics import Bound, ColumnMetrics
from tallyman.engine.expressions.redact import Redaction

MOST = 200
"""The most columns that are measured: the first ones of the schema."""
NESTED = (ArrayType, MapType, StructType, VariantType)
AS_TEXT = (DecimalType, DateType, TimestampType, TimestampNTZType)
"""Types whose bounds are written as text: JSON and Python hold not all of their values."""


def measured_fields(schema: StructType, redaction: Redaction) -> list[StructField]:
    """List the columns to measure: nothing is measured of redacted ones."""
    return [field for field in schema if not redaction.covers(field.name)][:MOST]


def aggregates(fields: list[StructField], value: Callable[[str], str], fits: str) -> list[str]:
    """Write the aggregates of the columns, over the rows for which `fits` holds."""
    found = []
    for number, field in enumerate(fields):
        kind, given = field.dataType, value(field.name)
        found.append(f"count_if({fits} AND {given} IS NULL) AS _tm_nulls{number}")
        if isinstance(kind, NESTED):
            continue
        fitting = f"CASE WHEN {fits} THEN {given} END"
        found.append(f"approx_count_distinct({fitting}) AS _tm_distinct{number}")
        if isinstance(kind, (NumericType, *AS_TEXT)):
            for name in ("min", "max"):
                bound = f"{name}({fitting})"
                shown = f"CAST({bound} AS STRING)" if isinstance(kind, AS_TEXT) else bound
                found.append(f"{shown} AS _tm_{name}{number}")
    return found


def of_row(fields: list[StructField], row: Any) -> dict[str, ColumnMetrics]:
    """Read the aggregates of `aggregates` from a row."""
    got = row.asDict()
    return {
        field.name: ColumnMetrics(
            nulls=got[f"_tm_nulls{number}"],
            approx_distinct=got.get(f"_tm_distinct{number}"),
            min=_finite(got.get(f"_tm_min{number}")),
            max=_finite(got.get(f"_tm_max{number}")),
        )
        for number, field in enumerate(fields)
    }


def _finite(value: Bound) -> Bound:
    """Drop NaN and infinity, which JSON cannot represent."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
