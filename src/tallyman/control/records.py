"""The original records behind keys, read from the inputs of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import functions as F

from tallyman.control.again import Again
from tallyman.domain.plan import accounted_inputs
from tallyman.engine.columns import KEY, col
from tallyman.engine.tables import table


def original_records(again: Again, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A semi-join on the keys; records come one at a time."""
    wanted = table(again.spark(), [f"{KEY} string"], [(key,) for key in keys])
    for name in dict.fromkeys(accounted_inputs(again.plan)):
        source = again.inputs[name]
        names = [col(n) for n in source.schema.names]
        found = source.records().join(F.broadcast(wanted), KEY, "left_semi")
        for row in found.orderBy(KEY).select(*names).toLocalIterator():
            yield row.asDict(recursive=True)
