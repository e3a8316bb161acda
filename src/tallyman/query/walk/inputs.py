"""The inputs of a past result, as far as they can still be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.pipeline.target import readings, source_path
from tallyman.domain.version.dataset import Dataset, Fragment, Kind
from tallyman.engine.files.listing import InputFiles, list_files, listed_files
from tallyman.errors import InputMissing, InputUnreadable
from tallyman.registry.database import Transaction
from tallyman.registry.run.reads import Read, Reads
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments


@dataclass(frozen=True, slots=True)
class PastInput:
    """One input of a past result, as far as it can still be read."""

    name: str
    kind: str
    partition: str | None
    files: InputFiles | None
    key: tuple[str, ...] = ()
    fragments: tuple[Fragment, ...] = ()
    dataset: Dataset | None = None
    version: int | None = None
    missing: str | None = None
    """Why it cannot be read; None if it can."""


@dataclass(frozen=True, slots=True)
class PastInputs:
    """Finds inputs by the registry's records; the current pipeline says where sources are."""

    workspace: Workspace

    def of(self, tx: Transaction, made: Materialization, run: RunRecord) -> Iterator[PastInput]:
        reads: dict[str, list[Read]] = {}
        for read in Reads(tx).inputs(made.id):
            reads.setdefault(read.name, []).append(read)
        if not reads:  # recorded on success only
            yield from self._declared(made)
        for name, listed in reads.items():
            if listed[0].fragment_id is not None:
                yield self._of_dataset(tx, name, listed, run)
            else:
                yield self._of_source(name, listed[0].partition, made)

    def _declared(self, made: Materialization) -> Iterator[PastInput]:
        for reading in readings(self.workspace.pipeline, made.target):
            if reading.of_source:
                yield self._of_source(reading.name, reading.partition, made)
            else:
                missing = "the run did not record what it read of it"
                kind = "table" if reading.of_table else "asset"
                yield PastInput(reading.name, kind, reading.partition, None, missing=missing)

    def _of_source(self, name: str, partition: str | None, made: Materialization) -> PastInput:
        source = self.workspace.pipeline.sources.get(name)
        if source is None:
            missing = "it is no longer declared in the pipeline"
            return PastInput(name, "source", partition, None, missing=missing)
        asset = self.workspace.pipeline.assets.get(made.target.asset)
        declared = asset.partitioned_by if asset else None
        words = declared.text(partition) if declared and partition else None
        files = missing = None
        try:
            files = list_files(name, source_path(source, words), self.workspace.home)
        except InputMissing:
            missing = f"its files are missing from {source_path(source, words)}"
        except InputUnreadable as error:
            missing = str(error)
        return PastInput(name, "source", partition, files, source.key, missing=missing)

    def _of_dataset(
        self, tx: Transaction, name: str, listed: list[Read], run: RunRecord
    ) -> PastInput:
        wanted = [read.fragment_id for read in listed if read.fragment_id]
        fragments = tuple(Fragments(tx).get(wanted).values())
        partition = listed[0].partition if len(listed) == 1 else None
        if len(fragments) < len(listed):
            missing = f"{len(listed) - len(fragments)} of {len(listed)} parts of it were purged"
            kind = "table" if listed[0].id is None else "asset"
            return PastInput(name, kind, partition, None, missing=missing)
        dataset = Datasets(tx).by_ids([fragments[0].dataset_id])[fragments[0].dataset_id]
        pinned = run.pins.get(dataset.id, 0)
        versions = [Reads(tx).version_of(dataset.id, f.id, pinned) for f in fragments]
        version = max((v for v in versions if v is not None), default=None)
        files = missing = None
        try:
            files = self.stored_files(name, fragments)
        except InputMissing as error:
            missing = str(error)
        kind = "table" if dataset.kind is Kind.TABLE else "asset"
        key = self.key_of(dataset)
        return PastInput(name, kind, partition, files, key, fragments, dataset, version, missing)

    def key_of(self, dataset: Dataset) -> tuple[str, ...]:
        """Return the key of a dataset: as its asset or table declares it now, if that is here."""
        if dataset.owner != self.workspace.owner:
            return dataset.key_columns
        pipeline = self.workspace.pipeline
        declared = pipeline.tables if dataset.kind is Kind.TABLE else pipeline.assets
        producer = declared.get(dataset.producer)
        return producer.key if producer else dataset.key_columns

    def stored_files(self, name: str, fragments: tuple[Fragment, ...]) -> InputFiles:
        """List the files by their path relative to the project, which also names records without a
        key."""
        home = self.workspace.home
        paths = self.workspace.warehouse.paths(fragments)
        found = listed_files(name, {os.path.relpath(path, home): path for path in paths}, home)
        return replace(
            found, check_recorded=lambda: self.workspace.warehouse.check(name, fragments)
        )
