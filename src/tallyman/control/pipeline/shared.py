"""Datasets that other pipelines publish: found by name, held to the identity read before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.pipeline.pipeline import Pipeline, SharedDataset
from tallyman.domain.version.dataset import Dataset, Fragment
from tallyman.domain.version.owner import Owner
from tallyman.engine.expressions.column_names import SYSTEM
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import DatasetNotFound, DatasetRenamed
from tallyman.errors.wording import nearest
from tallyman.registry.database import Transaction
from tallyman.registry.version.datasets import Datasets, readable
from tallyman.registry.version.fragments import Fragments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class SharedInput:
    """A shared dataset as a plan needs it: columns and key of the version that is read."""

    schema: StructType
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundShared:
    """A shared dataset, and the first fragment with files of the version that is read."""

    dataset: Dataset
    first: Fragment | None


def find_shared(tx: Transaction, owner: Owner, shared: SharedDataset) -> Dataset:
    """Find the dataset. Unknown, unpublished and hidden ones look the same. If the dataset that
    earlier results read as this input has lost the name by a rename, raise DatasetRenamed: the
    input would disappear, or silently become something else."""
    datasets = Datasets(tx)
    found = datasets.find(shared.dataset, owner.org)
    if found is not None and (found.owner == owner or not readable(found, owner)):
        found = None
    before = datasets.read_before(owner, shared.name)
    same = before is not None and found is not None and before.id == found.id
    if before and not same and _renamed(datasets, before, shared, owner):
        raise DatasetRenamed(shared.dataset, shared.name, before.name, before.owner.project)
    if found is None:
        known = [d.name for d in datasets.published(owner.org) if d.owner != owner]
        raise DatasetNotFound(shared.dataset, nearest(shared.dataset, known))
    return found


def pinned_shared(
    tx: Transaction, owner: Owner, shared: SharedDataset, ordinals: Mapping[UUID, int] | None
) -> Dataset:
    """Find the dataset among those that a run pinned, whatever happened to its name since; without
    pins, as `find_shared`."""
    datasets = Datasets(tx)
    pinned = [d for d in datasets.by_ids(ordinals or ()).values() if d.owner != owner]
    for dataset in pinned:
        if dataset.name == shared.dataset:
            return dataset
    for dataset in pinned:
        if datasets.was_called(dataset, shared.dataset):
            return dataset
    return find_shared(tx, owner, shared)


def _renamed(datasets: Datasets, before: Dataset, shared: SharedDataset, owner: Owner) -> bool:
    return readable(before, owner) and datasets.was_called(before, shared.dataset)


def read_by(pipeline: Pipeline, assets: Iterable[str]) -> list[SharedDataset]:
    """List the shared datasets that assets read."""
    names = {name for asset in assets for name in pipeline.assets[asset].inputs}
    return [shared for name, shared in pipeline.shared.items() if name in names]


def found_shared(
    workspace: Workspace, assets: Iterable[str], ordinals: Mapping[UUID, int] | None = None
) -> dict[str, FoundShared]:
    """Find what the assets read of other pipelines, at these versions or the current ones."""
    wanted = read_by(workspace.pipeline, assets)

    def work(tx: Transaction) -> dict[str, FoundShared]:
        found = {}
        for shared in wanted:
            dataset = pinned_shared(tx, workspace.owner, shared, ordinals)
            ordinal = (ordinals or {}).get(dataset.id, dataset.ordinal)
            fragments = Fragments(tx).at(dataset.id, ordinal).values()
            first = next((f for f in fragments if f.files), None)
            found[shared.name] = FoundShared(dataset, first)
        return found

    return workspace.database.durably(work)


def described_shared(
    warehouse: Warehouse, spark: SparkSession, found: Mapping[str, FoundShared]
) -> dict[str, SharedInput]:
    """Describe shared datasets by their files; one without files is left out."""
    described = {}
    for name, one in found.items():
        if one.first is not None:
            warehouse.check(name, [one.first])
            path = warehouse.paths([one.first])[0]
            schema = spark.read.parquet(path).drop(SYSTEM).schema
            described[name] = SharedInput(schema, one.dataset.key_columns)
    return described


def shared_inputs(
    workspace: Workspace,
    spark: SparkSession,
    assets: Iterable[str],
    ordinals: Mapping[UUID, int] | None = None,
) -> dict[str, SharedInput]:
    """Describe what the assets read of other pipelines, at these versions or the current ones."""
    found = found_shared(workspace, assets, ordinals)
    return described_shared(workspace.warehouse, spark, found)
