"""Resolve a name, and optionally a version, to files, in one transaction: a reader sees one
state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallyman.domain.version.dataset import Dataset, Fragment, Version
from tallyman.domain.version.owner import Owner
from tallyman.errors import NothingToRead, UsageError
from tallyman.registry.database import Transaction
from tallyman.registry.version.commits import Commits
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments
from tallyman.registry.version.snapshots import Snapshots


@dataclass(frozen=True, slots=True)
class Resolved:
    dataset: Dataset
    version: Version
    fragments: Sequence[Fragment]


def resolve(tx: Transaction, owner: Owner, name: str, version: int | None = None) -> Resolved:
    """Find a dataset at a version (default: current), or the version that a snapshot names."""
    pinned = Snapshots(tx).find(name, owner.org)
    if pinned is not None:
        if version not in (None, pinned["ordinal"]):
            raise UsageError(f"{name!r} is a snapshot of one version; leave out the version")
        dataset = Datasets(tx).by_ids([pinned["dataset_id"]])[pinned["dataset_id"]]
        version = pinned["ordinal"]
    else:
        dataset = Datasets(tx).get(name, owner)
    found = Commits(tx).version(dataset, version)
    if found.metadata_location is None or found.purged_at is not None:
        purged = found.purged_at is not None
        raise NothingToRead(dataset.name, found.ordinal, purged=purged)
    return Resolved(dataset, found, list(Fragments(tx).at(dataset.id, found.ordinal).values()))
