"""Metrics of a column of an input: NULLs, distinct values and range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Bound: TypeAlias = int | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMetrics:
    """Metrics of one column, over the records that could be read. What was not measured is None."""

    nulls: int
    approx_distinct: int | None = None
    """About how many different values there are; NULL is none."""
    min: Bound = None
    """The least number, date or time; decimals, dates and times are texts. Other types have none,
    because the first and last text of a column may be anything."""
    max: Bound = None


MetricsByColumn: TypeAlias = Mapping[str, ColumnMetrics]
