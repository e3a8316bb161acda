"""Targets: one asset, or one partition of it. A run makes one materialization of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from tallyman.domain.pipeline.follows import same_partitions
from tallyman.domain.pipeline.pipeline import Asset, Pipeline, SharedDataset, Source

PLACEHOLDER = "{partition}"
"""The placeholder in a source's path: only files of the partition are read."""


@dataclass(frozen=True, slots=True)
class Target:
    asset: str
    partition: str | None = None

    def __str__(self) -> str:
        return f"{self.asset}[{self.partition}]" if self.partition else self.asset


@dataclass(frozen=True, slots=True)
class Reading:
    """One input of a target; `partition` None means all partitions."""

    name: str
    partition: str | None
    of_source: bool
    of_table: bool = False
    shared: SharedDataset | None = None
    """The dataset of another pipeline that is read; None for what this pipeline declares."""

    @property
    def kind(self) -> str:
        """Name the kind of what is read, as manifests and reports do."""
        if self.of_source:
            return "source"
        return "dataset" if self.shared else "table" if self.of_table else "asset"


def readings(pipeline: Pipeline, target: Target) -> list[Reading]:
    """List the readings of a target, in the order in which the asset names its inputs."""
    reader = pipeline.assets[target.asset]
    found = []
    for name in reader.inputs:
        source = pipeline.sources.get(name)
        if source is not None:
            partition = target.partition if PLACEHOLDER in source.path else None
            found.append(Reading(name, partition, True))
        elif name in pipeline.tables:
            found.append(Reading(name, None, False, of_table=True))
        elif name in pipeline.shared:
            found.append(Reading(name, None, False, shared=pipeline.shared[name]))
        else:
            partition = target.partition if same_partitions(reader, pipeline.assets[name]) else None
            found.append(Reading(name, partition, False))
    return found


def dependencies(pipeline: Pipeline, targets: Iterable[Target]) -> dict[Target, set[Target]]:
    """Map each target to the targets of the run that must be made before it."""
    chosen = list(targets)
    of_asset: dict[str, set[Target]] = {}
    for target in chosen:
        of_asset.setdefault(target.asset, set()).add(target)
    return {target: _before(pipeline, target, of_asset) for target in chosen}


def _before(pipeline: Pipeline, target: Target, of_asset: Mapping[str, Set[Target]]) -> set[Target]:
    found: set[Target] = set()
    for reading in readings(pipeline, target):
        made = of_asset.get(reading.name)
        if reading.of_source or made is None:
            continue
        # Looked up, not searched for: an asset may have thousands of partitions.
        same = Target(reading.name, reading.partition)
        found |= made if reading.partition is None else made & {same}
    return found


def folder_of(pipeline: Mapping[str, Asset], target: Target) -> str:
    """Name the target's folder in the run folder: `asset`, or `asset/column=value`."""
    declared = pipeline[target.asset].partitioned_by
    if target.partition is None or declared is None:
        return target.asset
    return f"{target.asset}/{declared.folder(target.partition)}"


def source_path(source: Source, partition_text: str | None) -> str:
    """Fill the partition into the path; None gives a glob for the files of all partitions."""
    return source.path.replace(PLACEHOLDER, partition_text or "*")
