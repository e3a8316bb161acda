"""Rename, expose and hide datasets: metadata only, no version and no file changes."""

from __future__ import annotations

from uuid import UUID

from tallyman.control.dispatch import follow
from tallyman.control.publish.outside import put_right
from tallyman.domain.version.dataset import Dataset, checked_name
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.version.commits import Commits
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.outside_entries import OutsideEntries


def rename(tx: Transaction, dataset: UUID, name: str, actor: str) -> Dataset:
    """Change the name; id, paths, versions and lineage stay. Outside readers see the new name."""
    found = Datasets(tx).lock([dataset])[dataset]
    if found.name == checked_name(name):
        return found
    Datasets(tx).rename(found, name)
    location = _location(tx, found)
    OutsideEntries(tx, found.owner.org).put({found.name: None, name: location})
    details = {"was": found.name, "dataset": str(found.id)}
    Audit(tx, found.owner).add("dataset.renamed", actor, name, details=details)
    renamed = Datasets(tx).by_ids([found.id])[found.id]
    follow.appeared(tx, found.owner, [renamed])
    return renamed


def expose(tx: Transaction, dataset: UUID, actor: str, *, published: bool) -> Dataset:
    """Show a dataset to outside readers, or hide it from everybody but its project."""
    found = Datasets(tx).lock([dataset])[dataset]
    put_right(tx, found.owner, [dataset], actor)
    if found.published is published:
        return found
    Datasets(tx).expose(found.id, published=published)
    shown = Datasets(tx).by_ids([found.id])[found.id]
    OutsideEntries(tx, found.owner.org).put({found.name: _location(tx, shown)})
    event = "dataset.shown" if published else "dataset.hidden"
    Audit(tx, found.owner).add(event, actor, found.name)
    follow.appeared(tx, found.owner, [shown])
    return shown


def _location(tx: Transaction, dataset: Dataset) -> str | None:
    if not dataset.published or dataset.current_version is None:
        return None
    return Commits(tx).version(dataset).metadata_location
