"""Metrics of a column of an input: NULLs, distinct values and range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

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

    def to_json(self) -> dict[str, Any]:
        return {
            "nulls": self.nulls,
            "approx_distinct": self.approx_distinct,
            "min": self.min,
            "max": self.max,
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> ColumnMetrics:
        return cls(
            **{name: found.get(name) for name in ("approx_distinct", "min", "max")},
            nulls=found["nulls"],
        )


MetricsByColumn: TypeAlias = Mapping[str, ColumnMetrics]


def metrics_json(metrics: Mapping[str, MetricsByColumn]) -> dict[str, Any]:
    """Write the metrics of several inputs, by name of the input and of the column."""
    return {
        name: {column: one.to_json() for column, one in columns.items()}
        for name, columns in metrics.items()
    }


def metrics_of_json(found: Mapping[str, Any]) -> dict[str, dict[str, ColumnMetrics]]:
    return {
        name: {column: ColumnMetrics.of_json(one) for column, one in columns.items()}
        for name, columns in found.items()
    }
