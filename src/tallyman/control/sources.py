"""Backward: the keys behind a row, from evidence, or by a replay whose digests must agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from tallyman.control import define
from tallyman.control.inputs import open_inputs
from tallyman.control.replay import replayed
from tallyman.domain.ledger import PROOF
from tallyman.domain.pipeline import Pipeline
from tallyman.engine.behind import contributing_keys
from tallyman.engine.runs import Run
from tallyman.errors import RowsUnaccountedFor
from tallyman.settings import Settings


def source_keys(
    run: Run,
    asset: str,
    row: Mapping[str, str],
    settings: Settings,
    pipeline: Pipeline,
    spark: Callable[[], SparkSession],
) -> list[str]:
    """Spark starts only for a run that kept digests instead of keys."""
    ledger, folder = run.ledger(asset), run.folder / asset
    if ledger["verification"]["proof_method"] == PROOF:
        return contributing_keys(folder, ledger, row)
    session = spark()
    definition = define.check(session, pipeline, [asset], settings.home)
    inputs = open_inputs(
        session, definition, asset, settings.home, settings.runs_folder, run.folder
    )
    declared, plan = pipeline.assets[asset], definition.plans[asset]
    with replayed(declared, plan, inputs, ledger, folder) as replay:
        if replay.broken:
            raise RowsUnaccountedFor(asset, replay.broken, 0, 0)
        return contributing_keys(replay.folder, ledger, row)
