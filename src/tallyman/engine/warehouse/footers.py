"""Footers of Parquet files: rows, bytes, and the range of each column."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from tallyman.domain.account.redaction import covers
from tallyman.engine.expressions.column_names import HIDDEN
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = OnDemand("pyarrow"), OnDemand("pyarrow.parquet")


@dataclass(frozen=True, slots=True)
class ColumnExtent:
    """The range of a column of numbers; None where a footer does not have a value."""

    nulls: int | None
    least: float | None = None
    most: float | None = None
    values: int = 0
    """The number of values that are not NULL; without any, there is no range."""

    def __add__(self, other: ColumnExtent) -> ColumnExtent:
        known = [each for each in (self, other) if each.values]
        least = [each.least for each in known]
        most = [each.most for each in known]
        return ColumnExtent(
            None if self.nulls is None or other.nulls is None else self.nulls + other.nulls,
            None if None in least or not least else min(v for v in least if v is not None),
            None if None in most or not most else max(v for v in most if v is not None),
            self.values + other.values,
        )


@dataclass(frozen=True, slots=True)
class FileExtent:
    bytes: int
    rows: int | None = None
    columns: Mapping[str, ColumnExtent] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of a dataset, by file path: a file that is read twice counts once."""

    files: Mapping[str, FileExtent]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())

    @property
    def rows(self) -> int | None:
        counted = [file.rows for file in self.files.values()]
        return None if None in counted else sum(rows or 0 for rows in counted)

    @property
    def columns(self) -> dict[str, ColumnExtent]:
        """Combine the columns that every file has."""
        every = [file.columns for file in self.files.values()]
        shared = [name for name in every[0] if all(name in one for one in every)] if every else []
        return {name: reduce(add, (one[name] for one in every)) for name in shared}


def sizes(paths: Iterable[str]) -> Extent:
    """Measure files that have no footers."""
    return Extent({path: FileExtent(os.path.getsize(path)) for path in paths})


def extents(paths: Iterable[str], hidden: Collection[str] = ()) -> Extent:
    """Measure Parquet files; columns that `covers` hides are left out."""
    return Extent({path: _file(path, hidden) for path in paths})


def _file(path: str, hidden: Collection[str]) -> FileExtent:
    footer = pq.read_metadata(path)
    kinds = {each.name: each.type for each in footer.schema.to_arrow_schema()}
    columns: dict[str, ColumnExtent] = {}
    for number in range(footer.num_columns):
        column = footer.schema.column(number)
        name = column.path
        plain = name in kinds and not pa.types.is_nested(kinds[name])
        if not plain or covers(hidden, name) or name.startswith(HIDDEN.rstrip("_")):
            continue
        groups = map(footer.row_group, range(footer.num_row_groups))
        found = (_chunk(group.column(number), kinds[name]) for group in groups)
        columns[name] = sum(found, ColumnExtent(0))
    return FileExtent(os.path.getsize(path), footer.num_rows, columns)


def _chunk(chunk: pq.ColumnChunkMetaData, kind: pa.DataType) -> ColumnExtent:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return ColumnExtent(None, values=chunk.num_values)
    values = chunk.num_values - statistics.null_count
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not number or not statistics.has_min_max:
        return ColumnExtent(statistics.null_count, values=values)
    return ColumnExtent(
        statistics.null_count, _finite(statistics.min), _finite(statistics.max), values
    )


def _finite(value: float) -> float | None:
    """Drop NaN and infinity, which JSON cannot represent."""
    if isinstance(value, int):
        return value
    return float(value) if math.isfinite(value) else None
