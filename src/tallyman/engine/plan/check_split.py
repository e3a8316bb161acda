"""Mistakes of a split, found on schemas: each condition by itself."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tallyman.domain.definition.step import Split
from tallyman.engine.expressions.clock import reads_clock
from tallyman.engine.expressions.columns import to_column


def mistakes(step: Split, rows: DataFrame) -> Iterator[str]:
    """Check each condition by itself: put together, one could hide the mistake of another."""
    for name, condition in step.outputs:
        if reads_clock(str(condition)):
            yield f"{name}: it reads the clock, and a later run would put rows elsewhere"
            continue
        try:
            kind = rows.select(to_column(condition, rows.columns).alias("fits")).schema["fits"]
        except PySparkException as error:
            yield f"{name}: {str(error).strip().splitlines()[0]}"
            continue
        if (found := kind.dataType.simpleString()) != "boolean":
            yield f"{name}: {condition!r} gives {found}, not true or false"
