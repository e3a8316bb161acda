"""Targets: one asset, or one partition of it. A run makes one materialization of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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


def same_partitions(reader: Asset, other: Asset) -> bool:
    mine, theirs = reader.partitioned_by, other.partitioned_by
    if mine is None or theirs is None:
        return False
    return (mine.column, mine.kind) == (theirs.column, theirs.kind)


def dependencies(pipeline: Pipeline, targets: Iterable[Target]) -> dict[Target, set[Target]]:
    """Map each target to the targets of the run that must be made before it."""
    chosen = list(targets)
    of_asset: dict[str, list[Target]] = {}
    for target in chosen:
        of_asset.setdefault(target.asset, []).append(target)
    graph: dict[Target, set[Target]] = {}
    for target in chosen:
        graph[target] = {
            other
            for reading in readings(pipeline, target)
            if not reading.of_source
            for other in of_asset.get(reading.name, ())
            if reading.partition in (None, other.partition)
        }
    return graph


def folder_of(pipeline: Mapping[str, Asset], target: Target) -> str:
    """Name the target's folder in the run folder: `asset`, or `asset/column=value`."""
    declared = pipeline[target.asset].partitioned_by
    if target.partition is None or declared is None:
        return target.asset
    return f"{target.asset}/{declared.folder(target.partition)}"


def source_path(source: Source, partition_text: str | None) -> str:
    """Fill the partition into the path; None gives a glob for the files of all partitions."""
    return source.path.replace(PLACEHOLDER, partition_text or "*")
