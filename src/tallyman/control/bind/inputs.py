"""The inputs of a target: files of sources and versions of datasets, pinned once per run."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.history.materialization import Consumed, Materialization
from tallyman.domain.pipeline.target import Reading, Target, readings, source_path
from tallyman.domain.version.dataset import Dataset, Fragment, Kind
from tallyman.engine.files.listing import (
    Hasher,
    InputFile,
    InputFiles,
    hash_here,
    list_files,
    listed_files,
    read_before,
    sha256,
)
from tallyman.errors import DependencyNotReady
from tallyman.registry.database import Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments


@dataclass(frozen=True, slots=True)
class Pin:
    """One pinned input: its files, and for a dataset also its fragments."""

    reading: Reading
    files: InputFiles
    fragments: tuple[Fragment, ...] = ()

    def consumed(self) -> list[Consumed]:
        """List what was read with its digest. Hashes a source's files on first use."""
        name, partition = self.reading.name, self.reading.partition
        if self.reading.of_table:
            return [Consumed(name, None, table_digest(self.fragments))]
        if self.fragments:
            return [
                Consumed(name, f.partition, f.digest, f.materialization_id) for f in self.fragments
            ]
        digest = self.files.content_hash.removeprefix("sha256:")
        return [Consumed(name, partition, digest)]


def table_digest(fragments: Iterable[Fragment]) -> str:
    """Compute the digest that a result records for a table it read."""
    return hashlib.sha256("\n".join(sorted(f.digest for f in fragments)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Published:
    """The fragments of one version, also grouped by partition."""

    dataset: Dataset
    all: Sequence[Fragment]
    by_partition: Mapping[str | None, Sequence[Fragment]]

    @classmethod
    def of(cls, dataset: Dataset, fragments: Iterable[Fragment]) -> Published:
        listed = tuple(fragments)
        split: dict[str | None, list[Fragment]] = {}
        for fragment in listed:
            split.setdefault(fragment.partition, []).append(fragment)
        return cls(dataset, listed, split)

    def read_by(self, partition: str | None) -> Sequence[Fragment]:
        return self.all if partition is None else self.by_partition.get(partition, ())


@dataclass
class Pins:
    """The inputs of one run: every target reads the same source files, and each dataset in one
    version."""

    workspace: Workspace
    run: UUID | None = None
    ordinals: Mapping[UUID, int] | None = None
    """The version to read of each dataset; None means the current versions."""
    hasher: Hasher = hash_here
    _sources: dict[Reading, Pin] = field(default_factory=dict)
    _published: dict[tuple[str, bool], Published] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, target: Target) -> dict[str, Pin]:
        found = {}
        for reading in readings(self.workspace.pipeline, target):
            found[reading.name] = (
                self.source(target, reading)
                if reading.of_source
                else self._dataset(target, reading)
            )
        return found

    def recorded(self, made: Materialization) -> dict[str, Pin]:
        """Pin the inputs that a result was made from, as recorded in the registry; sources are
        pinned as they are now."""

        used = self._used(made)
        found = {}
        for reading in readings(self.workspace.pipeline, made.target):
            fragments = used.get(reading.name)
            if reading.of_source:
                found[reading.name] = self.source(made.target, reading)
            elif fragments:
                found[reading.name] = self._pinned(reading, fragments)
            else:
                found[reading.name] = self._dataset(made.target, reading)
        return found

    def as_read(self, made: Materialization) -> dict[str, Pin]:
        """Pin what a target of this run read, in the order it read it, even if it was declared
        invalid since."""
        used = self._used(made) if made.content_digest else {}
        found = {}
        for reading in readings(self.workspace.pipeline, made.target):
            if reading.of_source:
                found[reading.name] = self.source(made.target, reading)
                continue
            then, recorded = self.fragments(reading), used.get(reading.name)
            if recorded and {f.id for f in recorded} != {f.id for f in then}:
                then = recorded  # a replay reads what the first run read
            found[reading.name] = self._pinned(reading, then)
        return found

    def _used(self, made: Materialization) -> dict[str, list[Fragment]]:
        def work(tx: Transaction) -> dict[str, list[Fragment]]:
            used: dict[str, list[Fragment]] = {}
            for result in Materializations(tx).inputs(made):
                kept = Fragments(tx).get([result.fragment_id] if result.fragment_id else [])
                used.setdefault(result.target.asset, []).extend(kept.values())
            return used

        return self.workspace.database.durably(work)

    def source(self, target: Target, reading: Reading) -> Pin:
        with self._lock:
            if reading not in self._sources:
                source = self.workspace.pipeline.sources[reading.name]
                declared = self.workspace.pipeline.assets[target.asset].partitioned_by
                text = None
                if declared is not None and reading.partition is not None:
                    text = declared.text(reading.partition)
                files = list_files(reading.name, source_path(source, text), self.workspace.home)
                self._sources[reading] = Pin(reading, replace(files, hasher=self.hasher))
            return self._sources[reading]

    def _dataset(self, target: Target, reading: Reading) -> Pin:
        lacking = self.lacking(reading)
        if lacking:
            raise DependencyNotReady([(str(target), str(read)) for read in lacking])
        return self._pinned(reading, self.fragments(reading))

    def lacking(self, reading: Reading) -> list[Target]:
        """List the targets that have no valid result to read. When all partitions are read, none
        may be left out silently."""
        if not self.fragments(reading):
            return [Target(reading.name, reading.partition)]
        gone = self.workspace.database.durably(
            lambda tx: Materializations(tx).invalidated(reading.name, reading.partition)
        )
        return [Target(reading.name, partition) for partition in gone]

    def _pinned(self, reading: Reading, fragments: Iterable[Fragment]) -> Pin:
        listed = tuple(fragments)
        files: dict[str, str] = {}
        known: dict[str, str] = {}
        for number, fragment in enumerate(listed):
            folder = self.workspace.warehouse.dataset(fragment.dataset_id)
            # Name files without ids, so that equal content has an equal hash in another run.
            below = fragment.partition or f"{number:05d}"
            for file in fragment.files:
                name = Path(file.path).name
                path = str(folder / file.path)
                files[name if len(listed) == 1 else f"{below}/{name}"] = path
                known[path] = file.sha256
        found = listed_files(reading.name, files, self.workspace.home)

        def hashes(asked: Sequence[InputFile]) -> list[str]:
            """Reuse the hash recorded when the version was made; hash only files that were added on
            top."""
            return [known.get(file.path) or sha256(file.path) for file in asked]

        def check() -> None:
            """Check the files. On a cluster, the executors hash large files, as they do for
            sources."""
            unread = [file for file in found.files if not read_before(file.path)]
            if unread and self.hasher is not hash_here:
                self.hasher(unread)
            self.workspace.warehouse.check(reading.name, listed)

        return Pin(reading, replace(found, hasher=hashes, check_recorded=check), listed)

    def fragments(self, reading: Reading) -> list[Fragment]:
        """Return the fragments that this run made or chose to reuse; otherwise the published
        ones."""
        known = self._published.get((reading.name, reading.of_table))
        if known is not None and not self._makes(reading):
            return list(known.read_by(reading.partition))

        def work(tx: Transaction) -> list[Fragment]:
            published = known or self._look_up(tx, reading)
            if published is None:
                return []
            there = published.read_by(reading.partition)
            found = self._merged(published.dataset, there, self._own(tx, reading))
            return [f for f in found if reading.partition in (None, f.partition)]

        return self.workspace.database.durably(work)

    def _makes(self, reading: Reading) -> bool:
        """True if this run may have made some of the fragments itself."""
        return self.run is not None and not reading.of_table

    def _look_up(self, tx: Transaction, reading: Reading) -> Published | None:
        """Find the published fragments, once if versions are pinned, because a version never
        changes. Two threads may both look; they get the same answer."""
        kind = Kind.TABLE if reading.of_table else Kind.ASSET
        dataset = Datasets(tx).of_producer(self.workspace.name, reading.name, kind)
        if dataset is None:
            return None
        if self.ordinals is None:
            return Published.of(dataset, Fragments(tx).at(dataset.id, dataset.ordinal).values())
        ordinal = self.ordinals.get(dataset.id, 0)
        found = Published.of(dataset, Fragments(tx).at(dataset.id, ordinal).values())
        return self._published.setdefault((reading.name, reading.of_table), found)

    def _own(self, tx: Transaction, reading: Reading) -> dict[UUID, Fragment]:
        if self.run is None or reading.of_table:
            return {}
        made = Fragments(tx).made(self.run, reading.name, reading.partition)
        reused = {fragment: result for fragment, result in made.items() if result}
        return Fragments(tx).get(made) | Fragments(tx).reused(reused, self.ordinals or {})

    def _merged(
        self, dataset: Dataset, published: Iterable[Fragment], own: Mapping[UUID, Fragment]
    ) -> list[Fragment]:
        asset = self.workspace.pipeline.assets.get(dataset.producer)
        replaced = {fragment.partition for fragment in own.values()}
        if asset is not None and asset.update_strategy == "append":
            replaced = set()
        kept = [f for f in published if f.partition not in replaced and f.id not in own]
        return [*kept, *own.values()]
