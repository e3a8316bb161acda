"""The inputs of one target: pinned files, with corrected records in place of the originals."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tallyman.control.bind.pinned_files import Pin
from tallyman.domain.account.input_version import InputVersion
from tallyman.engine.files.replay_folder import FACTS, FOLDER
from tallyman.errors import OtherThanPublished
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tallyman.control.pipeline.check import Definition
    from tallyman.engine.expressions.redact import Redaction
    from tallyman.engine.source import corrections as corrected
    from tallyman.engine.source import open as opening
    from tallyman.engine.source.door_memory import DoorMemory
    from tallyman.engine.source.source import Input
else:
    corrected = OnDemand("tallyman.engine.source.corrections")
    opening = OnDemand("tallyman.engine.source.open")


BELOW = 3
"""The parts of a data file's path below the folder of its dataset: version, fragment, file."""


@dataclass(frozen=True, slots=True)
class Corrections:
    """The records of a replay, stored in `folder`, and the inputs they belong to."""

    folder: Path
    inputs: Collection[str]
    keep: bool
    """Copy the folder to the result, because the result was made from it."""

    @classmethod
    def kept_in(cls, result: Path, inputs: Collection[str]) -> Corrections | None:
        """Find the corrections that an earlier run kept in its result, if it was a replay."""
        folder = result / FOLDER
        return cls(folder, inputs, keep=False) if (folder / FACTS).exists() else None


@dataclass(frozen=True, slots=True)
class TargetInputs:
    pins: Mapping[str, Pin]
    corrections: Corrections | None = None
    memory: DoorMemory | None = None
    """Doors that earlier runs measured; without it, every door is measured."""

    def open(
        self, spark: SparkSession, definition: Definition, redaction: Redaction, project: Path
    ) -> dict[str, Input]:
        opened = open_inputs(spark, definition, self.pins, redaction, self.memory)
        for name, pin in self.pins.items():
            if pin.version is not None:
                _check_version(pin.version, opened[name])
        if self.corrections is None:
            return opened
        records = self.corrections
        return corrected.overlaid(opened, records.inputs, records.folder, project)

    @property
    def versions(self) -> tuple[InputVersion, ...]:
        return tuple(pin.version for pin in self.pins.values() if pin.version is not None)

    def keep_corrections(self, place: Path) -> None:
        """Copy the corrected records into a result, before its files are hashed."""
        if self.corrections is not None and self.corrections.keep:
            shutil.copytree(self.corrections.folder, place / FOLDER)


def _check_version(version: InputVersion, opened: Input) -> None:
    """Refuse to read anything but the version: its files, each of them once, and its rows."""
    files = ["/".join(Path(file.path).parts[-BELOW:]) for file in opened.files.files]
    if sorted(files) != sorted(version.files):
        of_it = len(set(files) & set(version.files))
        found = f"{len(files):,} files, {of_it:,} of them its own,"
        raise OtherThanPublished(str(version), f"{len(version.files):,} files", found)
    if opened.at_most() != version.rows:
        found = f"{opened.at_most():,} rows"
        raise OtherThanPublished(str(version), version.extent, found)


def open_inputs(
    spark: SparkSession,
    definition: Definition,
    pins: Mapping[str, Pin],
    redaction: Redaction,
    memory: DoorMemory | None = None,
) -> dict[str, Input]:
    opened: dict[str, Input] = {}
    pipeline = definition.pipeline
    for name, pin in pins.items():
        schema = definition.schemas[name]
        if pin.reading.of_source:
            source = pipeline.sources[name]
            opened[name] = opening.open_source(spark, source, schema, pin.files, redaction, memory)
        else:
            key = definition.key_of(name)
            opened[name] = opening.open_output(spark, pin.files, schema, key, redaction, memory)
    return opened
