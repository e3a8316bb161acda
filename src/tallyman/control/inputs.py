"""Where the inputs of an asset are: sources outside, upstream outputs in this run or the latest."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from tallyman.control.define import Definition
from tallyman.domain.run import Status
from tallyman.engine.open import open_output, open_source
from tallyman.engine.source import Input
from tallyman.errors import InputMissing


def open_inputs(
    spark: SparkSession, definition: Definition, asset: str, project: Path, runs: Path, run: Path
) -> dict[str, Input]:
    opened: dict[str, Input] = {}
    for name in definition.pipeline.assets[asset].inputs:
        schema = definition.schemas[name]
        if name in definition.pipeline.sources:
            opened[name] = open_source(spark, definition.pipeline.sources[name], schema, project)
        else:
            folder = latest_output(runs, run, name)
            key = definition.pipeline.assets[name].key
            opened[name] = open_output(spark, name, folder, schema, key)
    return opened


def latest_output(runs: Path, run: Path, asset: str) -> Path:
    """This run's output if it made one, else that of the newest run that made it."""
    if (run / asset / "output").is_dir():
        return run / asset / "output"
    reports = sorted(runs.glob("*/processing_report.json"), key=lambda p: p.stat().st_mtime_ns)
    for report in reversed(reports):
        made = json.loads(report.read_text(encoding="utf-8"))["assets"]
        if any(a["name"] == asset and a["status"] == Status.SUCCESS for a in made):
            return report.parent / asset / "output"
    raise InputMissing(
        asset, "any run", f"Run it first: `tallyman run +{asset}`, or select it too."
    )
