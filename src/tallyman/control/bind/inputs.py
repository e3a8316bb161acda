"""The inputs of a target: files of sources and versions of datasets, pinned once per run."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from tallyman.control.bind.pinned_files import AssignedInput, Pin, PinnedFiles
from tallyman.control.pipeline.shared import pinned_shared
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.account.input_version import InputVersion
from tallyman.domain.definition.plan import accounted_inputs
from tallyman.domain.history.materialization import Materialization
from tallyman.domain.pipeline.pipeline import SharedDataset
from tallyman.domain.pipeline.target import Reading, Target, readings
from tallyman.domain.version.dataset import Dataset, Fragment, Kind, asset_of
from tallyman.engine.files.listing import Hasher, hash_here
from tallyman.errors import DependencyNotReady, InputMissing
from tallyman.registry.database import Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.reads import Reads
from tallyman.registry.run.replays import Replays
from tallyman.registry.run.runs import Runs
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments


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


@dataclass(frozen=True, slots=True)
class AsOf:
    """A view of the datasets: the versions that a run pinned, with what that run makes itself."""

    run: UUID | None
    ordinals: Mapping[UUID, int] | None


@dataclass
class Pins:
    """The inputs of one run: every target reads the same source files, and each dataset in one
    version."""

    workspace: Workspace
    run: UUID | None = None
    ordinals: Mapping[UUID, int] | None = None
    """The version to read of each dataset; None means the current versions."""
    hasher: Hasher = hash_here
    _published: dict[tuple[str, bool], Published] = field(default_factory=dict)

    _files: list[PinnedFiles] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def files(self) -> PinnedFiles:
        """The pinned files: one set for all threads."""
        with self._lock:
            if not self._files:
                opened, hasher = self.workspace, self.hasher
                self._files.append(
                    PinnedFiles(opened.pipeline, opened.home, opened.warehouse, hasher)
                )
            return self._files[0]

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
        made = self._result(made)
        used, as_of = self._used(made), self._as_of(made)
        found = {}
        for reading in readings(self.workspace.pipeline, made.target):
            fragments = used.get(reading.name)
            if reading.of_source:
                found[reading.name] = self.source(made.target, reading)
            elif fragments is None:
                found[reading.name] = self._dataset(made.target, reading)
            elif fragments:
                found[reading.name] = self._pinned(reading, fragments, as_of[reading.name])
            else:
                raise InputMissing(reading.name, "the version that was read", "It was purged.")
        return found

    def as_read(self, made: Materialization) -> dict[str, Pin]:
        """Pin what a target of this run read, even if it was declared invalid since."""
        used, as_of = (self._used(made), self._as_of(made)) if made.content_digest else ({}, {})
        found = {}
        for reading in readings(self.workspace.pipeline, made.target):
            if reading.of_source:
                found[reading.name] = self.source(made.target, reading)
                continue
            fragments = used.get(reading.name) or self.fragments(reading)
            found[reading.name] = self._pinned(
                reading, fragments, as_of.get(reading.name, self._now)
            )
        return found

    def _result(self, made: Materialization) -> Materialization:
        """Return the result behind the row of a target that reused one."""
        wanted = made.reused_id
        if wanted is None:
            return made
        return self.workspace.database.durably(lambda tx: Reads(tx).result(wanted)) or made

    def _used(self, made: Materialization) -> dict[str, list[Fragment]]:
        """Return the recorded fragments of each input, without those that were purged."""

        def work(tx: Transaction) -> dict[str, list[Fragment]]:
            reads = [read for read in Reads(tx).inputs(made.id) if read.fragment_id]
            kept = Fragments(tx).get([read.fragment_id for read in reads if read.fragment_id])
            used: dict[str, list[Fragment]] = {}
            for read in reads:
                listed = used.setdefault(read.name, [])
                listed += [kept[read.fragment_id]] if read.fragment_id in kept else []
            return used

        return self.workspace.database.durably(work)

    @property
    def _now(self) -> AsOf:
        return AsOf(self.run, self.ordinals)

    def _as_of(self, made: Materialization) -> dict[str, AsOf]:
        """Return the run whose view of the datasets a result saw, by input: a replay reads the
        records that it accounts for as the first run read them."""
        asset = self.workspace.pipeline.assets[made.target.asset]

        def work(tx: Transaction) -> dict[str, AsOf]:
            line = Replays(tx).line(made.id)
            first = Runs(tx).by_id(line[0].run_id if line else made.run_id)
            own = first if first.id == made.run_id else Runs(tx).by_id(made.run_id)
            accounted = accounted_inputs(asset.plan()) if own is not first else ()
            runs = {name: first if name in accounted else own for name in asset.inputs}
            return {name: AsOf(run.id, run.pins) for name, run in runs.items()}

        return self.workspace.database.durably(work)

    def source(self, target: Target, reading: Reading) -> Pin:
        return self.files.source(target, reading)

    def _dataset(self, target: Target, reading: Reading) -> Pin:
        return self._pinned(reading, self._there(target, reading), self._now)

    def _there(self, target: Target, reading: Reading) -> list[Fragment]:
        lacking = self.lacking(reading)
        if lacking:
            raise DependencyNotReady([(str(target), str(read)) for read in lacking])
        return self.fragments(reading)

    def assigned(self, target: Target) -> dict[str, AssignedInput]:
        """Find the datasets that a target reads; raise DependencyNotReady if one is not there."""
        return {
            reading.name: self._assigned(reading, self._there(target, reading), self._now)
            for reading in readings(self.workspace.pipeline, target)
            if not reading.of_source
        }

    def _assigned(
        self, reading: Reading, fragments: Sequence[Fragment], as_of: AsOf
    ) -> AssignedInput:
        shared = self._shared(reading)
        if not fragments:  # of a past run whose input was purged
            return AssignedInput(fragments=(), dataset=shared)
        dataset = fragments[0].dataset_id

        def work(tx: Transaction) -> InputVersion:
            pinned = as_of.ordinals
            if pinned is None:
                pinned = {dataset: Datasets(tx).by_ids([dataset])[dataset].ordinal}
            ordinal, run = pinned.get(dataset, 0), as_of.run
            return Reads(tx).expected(reading.name, dataset, reading.partition, ordinal, run)

        version = self.workspace.database.durably(work)
        return AssignedInput(fragments=tuple(fragments), version=version, dataset=shared)

    def lacking(self, reading: Reading) -> list[Target]:
        """List the targets that have no valid result to read. When all partitions are read, none
        may be left out silently."""
        there = {fragment.partition for fragment in self.fragments(reading)}
        if not there:
            return [Target(reading.name, reading.partition)]
        dataset = self._shared(reading)
        owner = dataset.owner if dataset else self.workspace.owner
        name = asset_of(dataset.producer) if dataset else reading.name
        gone = self.workspace.database.durably(
            lambda tx: Materializations(tx).invalidated(owner, name, reading.partition)
        )
        return [Target(reading.name, partition) for partition in gone if partition in there]

    def _pinned(self, reading: Reading, fragments: Sequence[Fragment], as_of: AsOf) -> Pin:
        return self.files.dataset(reading, self._assigned(reading, fragments, as_of))

    def _shared(self, reading: Reading) -> Dataset | None:
        """Return the dataset of another pipeline that is read, as it was found first."""
        if reading.shared is None:
            return None
        known = self._published.get((reading.name, reading.of_table))
        if known is not None:
            return known.dataset
        shared = reading.shared
        return self.workspace.database.durably(lambda tx: self._find(tx, shared))

    def _find(self, tx: Transaction, shared: SharedDataset) -> Dataset:
        return pinned_shared(tx, self.workspace.owner, shared, self.ordinals)

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
            found = self._merged(tx, there, reading)
            return [f for f in found if reading.partition in (None, f.partition)]

        return self.workspace.database.durably(work)

    def _makes(self, reading: Reading) -> bool:
        """True if this run may have made some of the fragments itself."""
        return self.run is not None and not reading.of_table and reading.shared is None

    def _look_up(self, tx: Transaction, reading: Reading) -> Published | None:
        """Find the published fragments, once if versions are pinned, because a version never
        changes. Two threads may both look; they get the same answer."""
        if reading.shared is not None:
            dataset = self._find(tx, reading.shared)
        else:
            kind = Kind.TABLE if reading.of_table else Kind.ASSET
            dataset = Datasets(tx).of_producer(self.workspace.owner, reading.name, kind)
        if dataset is None:
            return None
        if self.ordinals is None:
            return Published.of(dataset, Fragments(tx).at(dataset.id, dataset.ordinal).values())
        ordinal = self.ordinals.get(dataset.id, 0)
        found = Published.of(dataset, Fragments(tx).at(dataset.id, ordinal).values())
        return self._published.setdefault((reading.name, reading.of_table), found)

    def _merged(
        self, tx: Transaction, published: Sequence[Fragment], reading: Reading
    ) -> list[Fragment]:
        """Put what this run made or reused of an asset in place of the published partitions, or of
        the whole version if it applies a plan; rows that are appended, or that a replay adds, are
        read in addition."""
        if self.run is None or not self._makes(reading):
            return list(published)
        made = Fragments(tx).made(self.run, reading.name, reading.partition)
        reused = {fragment: by.reused_id for fragment, by in made.items() if by.reused_id}
        own = Fragments(tx).get(made) | Fragments(tx).reused(reused, self.ordinals or {})
        replacing = {fragment for fragment, by in made.items() if not by.joins}
        if any(made[fragment].whole for fragment in replacing):
            return list(own.values())
        replaced = {own[fragment].partition for fragment in replacing if fragment in own}
        kept = [f for f in published if f.partition not in replaced and f.id not in own]
        return [*kept, *own.values()]
