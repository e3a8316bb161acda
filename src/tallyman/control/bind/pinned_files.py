"""Pin the files of inputs: of sources as they are listed, of datasets as they are recorded."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tallyman.domain.account.input_version import InputVersion
from tallyman.domain.history.materialization import Consumed
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.domain.pipeline.target import Reading, Target, readings, source_path
from tallyman.domain.version.dataset import Dataset, Fragment
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
from tallyman.engine.warehouse.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Pin:
    """One pinned input: its files, and for a dataset also its fragments."""

    reading: Reading
    files: InputFiles
    fragments: tuple[Fragment, ...] = ()
    dataset: Dataset | None = None
    """The dataset of another pipeline that is read."""
    version: InputVersion | None = None
    """What the registry says of the version that is read; None for a source."""

    def consumed(self) -> list[Consumed]:
        """List what was read with its digest. Hashes a source's files on first use."""
        name, partition = self.reading.name, self.reading.partition
        if self.fragments:
            return consumed_of(name, self.fragments, self.dataset)
        digest = self.files.content_hash.removeprefix("sha256:")
        return [Consumed(name, partition, digest)]


def consumed_of(
    name: str, fragments: Iterable[Fragment], shared: Dataset | None = None
) -> list[Consumed]:
    """List fragments that were read; those of another pipeline by their identity there, which no
    rename changes."""
    producer, project, given = name, None, None
    if shared is not None:
        producer, project, given = shared.producer, shared.owner.project, name
    return [
        Consumed(producer, f.partition, f.digest, f.materialization_id, f.id, project, given)
        for f in fragments
    ]


def _content(fragment: Fragment) -> tuple[str, str, str]:
    """Order fragments by content, so that equal content has an equal hash in another run."""
    return (fragment.partition or "", fragment.digest, str(fragment.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedInput:
    """A dataset that a target reads: the fragments to read, and the dataset if another pipeline
    produces it."""

    fragments: tuple[Fragment, ...]
    version: InputVersion | None = None
    dataset: Dataset | None = None


@dataclass
class PinnedFiles:
    """The files that one run reads. Each source is listed once, so that every target reads the same
    files."""

    pipeline: Pipeline
    home: Path
    warehouse: Warehouse
    hasher: Hasher = hash_here
    _sources: dict[Reading, Pin] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, target: Target, assigned: Mapping[str, AssignedInput]) -> dict[str, Pin]:
        """Pin all inputs of a target."""
        found = {}
        for reading in readings(self.pipeline, target):
            if reading.of_source:
                found[reading.name] = self.source(target, reading)
            else:
                one = assigned[reading.name]
                found[reading.name] = self.dataset(reading, one)
        return found

    def source(self, target: Target, reading: Reading) -> Pin:
        with self._lock:
            if reading not in self._sources:
                source = self.pipeline.sources[reading.name]
                declared = self.pipeline.assets[target.asset].partitioned_by
                text = None
                if declared is not None and reading.partition is not None:
                    text = declared.text(reading.partition)
                files = list_files(reading.name, source_path(source, text), self.home)
                self._sources[reading] = Pin(reading, replace(files, hasher=self.hasher))
            return self._sources[reading]

    def dataset(self, reading: Reading, given: AssignedInput) -> Pin:
        listed = given.fragments
        files: dict[str, str] = {}
        known: dict[str, str] = {}
        for number, fragment in enumerate(sorted(listed, key=_content)):
            folder = self.warehouse.of(fragment)
            for file in fragment.files:
                path = str(folder / file.path)
                files[f"{number:05d}/{Path(file.path).name}"] = path
                known[path] = file.sha256
        found = listed_files(reading.name, files, self.home)

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
            self.warehouse.check(reading.name, listed)

        pinned = replace(found, hasher=hashes, check_recorded=check)
        return Pin(reading, pinned, listed, given.dataset, given.version)
