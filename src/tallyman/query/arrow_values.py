"""Convert Arrow values to Python values with their exact types."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = [values_of(column) for column in batch.columns]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def values_of(array: pa.Array) -> list[Any]:
    """Convert a column: decimals keep their scale, timestamps are in UTC, maps become dicts.

    If a date is outside Python's range of years, all dates of the column become text.
    """
    of = array.type
    if pa.types.is_struct(of):
        names = [field.name for field in of]
        columns = [values_of(column) for column in array.flatten()]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        if not array.null_count:
            return rows
        return [row if one.is_valid else None for row, one in zip(rows, array, strict=True)]
    if pa.types.is_timestamp(of) and of.tz is not None:
        # Avoid Arrow's own conversion: it imports pandas, if installed, to find a time zone.
        utc = values_of(array.view(pa.timestamp(of.unit)))
        return [one.replace(tzinfo=UTC) if isinstance(one, datetime) else one for one in utc]
    try:
        found = array.to_pylist()
    except (OverflowError, ValueError):
        array = array.cast(_with_text(array.type))
        found = array.to_pylist()
    return [_value(one, array.type) for one in found] if _differs(array.type) else found


def _differs(of: pa.DataType) -> bool:
    """True if Arrow converts the type differently than we need."""
    if pa.types.is_map(of) or (pa.types.is_timestamp(of) and of.tz is not None):
        return True
    return any(_differs(of.field(number).type) for number in range(of.num_fields))


def _value(value: Any, of: pa.DataType) -> Any:
    if value is None or not _differs(of):
        return value
    if pa.types.is_timestamp(of):
        return value.astimezone(UTC)
    if pa.types.is_map(of):
        return {_value(k, of.key_type): _value(v, of.item_type) for k, v in value}
    if pa.types.is_struct(of):
        return {field.name: _value(value[field.name], field.type) for field in of}
    return [_value(each, of.field(0).type) for each in value]


def _with_text(of: pa.DataType) -> pa.DataType:
    """Return the type with texts in place of dates and timestamps."""
    if pa.types.is_temporal(of):
        return pa.string()
    if pa.types.is_struct(of):
        return pa.struct([field.with_type(_with_text(field.type)) for field in of])
    if pa.types.is_map(of):
        return pa.map_(_with_text(of.key_type), _with_text(of.item_type))
    if pa.types.is_list(of):
        return pa.list_(_with_text(of.value_type))
    return of
