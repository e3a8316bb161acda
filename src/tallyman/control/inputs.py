"""What a target reads: sources outside, and results of upstream assets. Pinned once per run."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from pyspark.sql import SparkSession

from tallyman.control.define import Definition
from tallyman.domain.materialization import Consumed, Materialization
from tallyman.domain.pipeline import Pipeline
from tallyman.domain.target import Reading, Target, readings, source_path
from tallyman.engine.files import InputFiles, list_files, list_outputs
from tallyman.engine.open import open_output, open_source
from tallyman.engine.source import Input
from tallyman.errors import DependencyNotReady
from tallyman.registry.database import Database
from tallyman.registry.materializations import Materializations


@dataclass(frozen=True, slots=True)
class Pin:
    """One input: its files, and for an asset the results they are."""

    reading: Reading
    files: InputFiles
    results: tuple[Materialization, ...] = ()

    def consumed(self) -> list[Consumed]:
        """Hashes a source's files, once."""
        if self.results:
            return [result.read_as() for result in self.results]
        digest = self.files.content_hash.removeprefix("sha256:")
        return [Consumed(self.reading.name, self.reading.partition, digest)]


@dataclass
class Pins:
    """The inputs of one run: every asset of it reads the same files of a source."""

    pipeline: Pipeline
    database: Database
    project: Path
    run: UUID | None = None
    _sources: dict[Reading, Pin] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, target: Target) -> dict[str, Pin]:
        found = {}
        for reading in readings(self.pipeline, target):
            found[reading.name] = (
                self._source(target, reading) if reading.of_source else self._asset(target, reading)
            )
        return found

    def recorded(self, made: Materialization) -> dict[str, Pin]:
        """What a result was made from, as the registry has it; a source as it is now."""
        used = self.database.durably(lambda tx: Materializations(tx).inputs(made))
        found = {}
        for reading in readings(self.pipeline, made.target):
            results = [m for m in used if m.target.asset == reading.name]
            if reading.of_source:
                found[reading.name] = self._source(made.target, reading)
            elif results:
                found[reading.name] = self._pinned(reading, results)
            else:
                found[reading.name] = self._asset(made.target, reading)
        return found

    def _source(self, target: Target, reading: Reading) -> Pin:
        with self._lock:
            if reading not in self._sources:
                source = self.pipeline.sources[reading.name]
                declared = self.pipeline.assets[target.asset].partitioned_by
                text = None
                if declared is not None and reading.partition is not None:
                    text = declared.text(reading.partition)
                files = list_files(reading.name, source_path(source, text), self.project)
                self._sources[reading] = Pin(reading, files)
            return self._sources[reading]

    def _asset(self, target: Target, reading: Reading) -> Pin:
        lacking = self.lacking(reading)
        if lacking:
            raise DependencyNotReady([(str(target), str(read)) for read in lacking])
        return self._pinned(reading, self.results(reading))

    def lacking(self, reading: Reading) -> list[Target]:
        """What has no result to read. Of all partitions none may be left out without a word."""
        if not self.results(reading):
            return [Target(reading.name, reading.partition)]
        if reading.partition is not None:
            return []
        gone = self.database.durably(lambda tx: Materializations(tx).invalidated(reading.name))
        return [Target(reading.name, partition) for partition in gone]

    def _pinned(self, reading: Reading, results: list[Materialization]) -> Pin:
        folders = [self.project / str(result.location) for result in results]
        return Pin(reading, list_outputs(reading.name, folders, self.project), tuple(results))

    def results(self, reading: Reading) -> list[Materialization]:
        partitioned = self.pipeline.assets[reading.name].partitioned_by is not None
        return self.database.durably(
            lambda tx: Materializations(tx).latest_success(
                reading.name, reading.partition, partitioned=partitioned, run=self.run
            )
        )


def open_inputs(
    spark: SparkSession, definition: Definition, pins: Mapping[str, Pin]
) -> dict[str, Input]:
    opened: dict[str, Input] = {}
    for name, pin in pins.items():
        schema = definition.schemas[name]
        if pin.reading.of_source:
            opened[name] = open_source(spark, definition.pipeline.sources[name], schema, pin.files)
        else:
            key = definition.pipeline.assets[name].key
            opened[name] = open_output(spark, pin.files, schema, key)
    return opened
