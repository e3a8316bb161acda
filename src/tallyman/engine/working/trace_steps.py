"""The steps of a working set as data, for reading a trace long after the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tallyman.domain.definition.frame import Frame
from tallyman.engine.plan import in_place
from tallyman.engine.spark import small_tables


def described(
    spark: SparkSession,
    nodes: Sequence[Frame],
    loaded: StructType,
    named: Callable[[Frame], tuple[int, str]],
    other: Callable[[Frame], DataFrame],
) -> list[dict[str, object]]:
    """Describe each step: its number, its text, and the columns after it."""
    rows = small_tables.empty(spark, loaded)
    found: list[dict[str, object]] = []
    for node in nodes:
        step = node.step
        assert step is not None
        before = rows.columns
        rows = in_place.apply(step, rows, other)
        seq, name = named(node)
        found.append(
            {
                "seq": seq,
                "id": name,
                "kind": step.kind,
                "text": step.text(),
                "assigned": list(in_place.assigned_by(step, before, rows.columns)),
                "renamed": in_place.renamed_by(step, before),
                "columns": rows.columns,
            }
        )
    return found
