"""What one target reads: its pinned inputs, with corrected records in the place of others."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tallyman.control.bind.inputs import Pin, open_inputs
from tallyman.control.pipeline.load import Definition
from tallyman.engine.asset.work import Work
from tallyman.engine.source.corrections import FOLDER, overlaid
from tallyman.engine.source.source import Input


@dataclass(frozen=True, slots=True)
class Corrections:
    """The records of a replay, written down in `folder`, for those inputs."""

    folder: Path
    inputs: Collection[str]
    keep: bool
    """Copy the folder to the result: it belongs to what the result was made from."""


@dataclass(frozen=True, slots=True)
class TargetInputs:
    pins: Mapping[str, Pin]
    corrections: Corrections | None = None

    def open(self, spark: SparkSession, definition: Definition, work: Work) -> dict[str, Input]:
        opened = open_inputs(spark, definition, self.pins, work.redaction)
        if self.corrections is None:
            return opened
        inputs, folder = self.corrections.inputs, self.corrections.folder
        return overlaid(opened, inputs, folder, work.folders.project)

    def keep_corrections(self, place: Path) -> None:
        """Add the corrected records to a result, before its files are hashed."""
        if self.corrections is not None and self.corrections.keep:
            shutil.copytree(self.corrections.folder, place / FOLDER)
