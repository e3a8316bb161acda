"""The original records behind keys, read from the inputs of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tallyman.control import define
from tallyman.control.inputs import open_inputs
from tallyman.domain.pipeline import Pipeline
from tallyman.domain.plan import accounted_inputs
from tallyman.engine.columns import KEY, col
from tallyman.engine.runs import Run
from tallyman.engine.tables import table
from tallyman.settings import Settings


def original_records(
    spark: SparkSession,
    settings: Settings,
    pipeline: Pipeline,
    run: Run,
    asset: str,
    keys: Sequence[str],
) -> Iterator[dict[str, Any]]:
    """A semi-join on the keys; records come one at a time."""
    definition = define.check(spark, pipeline, [asset], settings.home)
    inputs = open_inputs(spark, definition, asset, settings.home, settings.runs_folder, run.folder)
    wanted = table(spark, [f"{KEY} string"], [(key,) for key in keys])
    for name in dict.fromkeys(accounted_inputs(definition.plans[asset])):
        source = inputs[name]
        names = [col(n) for n in source.schema.names]
        found = source.records().join(F.broadcast(wanted), KEY, "left_semi")
        for row in found.orderBy(KEY).select(*names).toLocalIterator():
            yield row.asDict(recursive=True)
