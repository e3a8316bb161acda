"""Datasets of a project: their versions, commits and snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.publish.resolve import Resolved, resolve
from tallyman.domain.version.commit import Commit
from tallyman.domain.version.dataset import Dataset
from tallyman.engine.files.intact import Damage, damaged
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.registry.database import Transaction
from tallyman.registry.run.invalidations import Invalidations
from tallyman.registry.version.commits import Commits
from tallyman.registry.version.datasets import Datasets, readable
from tallyman.registry.version.overview import overview
from tallyman.registry.version.snapshots import Snapshots


@dataclass(frozen=True, slots=True)
class ProjectDatasets:
    """Answers questions about datasets without reading their rows."""

    workspace: Workspace

    def __call__(self) -> list[Dataset]:
        return self.workspace.database.durably(lambda tx: Datasets(tx).list(self.workspace.owner))

    def heads(self) -> dict[str, int]:
        """Return the current version of every dataset."""
        return {dataset.name: dataset.ordinal for dataset in self()}

    def resolve(self, name: str, version: int | None = None) -> Resolved:
        return self.workspace.database.durably(
            lambda tx: resolve(tx, self.workspace.owner, name, version)
        )

    def commits(self, dataset: str | None = None, *, limit: int = 20) -> list[Commit]:
        """List commits, newest first, of one dataset or of the project."""

        def work(tx: Transaction) -> list[Commit]:
            only = Datasets(tx).get(dataset, self.workspace.owner).id if dataset else None
            return Commits(tx).list(self.workspace.owner, only, limit)

        return self.workspace.database.durably(work)

    def snapshots(self, dataset: str | None = None) -> list[dict[str, Any]]:
        def work(tx: Transaction) -> list[dict[str, Any]]:
            only = Datasets(tx).get(dataset, self.workspace.owner).id if dataset else None
            return Snapshots(tx).list(self.workspace.owner, only)

        return self.workspace.database.durably(work)

    def stale(self) -> list[dict[str, Any]]:
        """List current results that were made from something replaced since."""
        return self.workspace.database.durably(
            lambda tx: Invalidations(tx).stale(self.workspace.owner)
        )

    def of_all_pipelines(self) -> list[dict[str, Any]]:
        """List the datasets of every pipeline of the organisation that this one may read: producer,
        consumers, backend and location."""
        owner = self.workspace.owner
        rows = self.workspace.database.durably(lambda tx: overview(tx, owner))
        for row in rows:
            root, dataset = row.pop("warehouse"), row.pop("id")
            own = row["pipeline"] == owner.project
            root = str(self.workspace.settings.warehouse_folder) if own else root
            row["backend"] = "iceberg"
            row["location"] = root and str(Warehouse(Path(root), owner).dataset(dataset))
        return rows

    def shared(self) -> dict[str, Dataset | None]:
        """Map each input that is a dataset of another pipeline to that dataset; None if it cannot
        be read now."""
        owner, declared = self.workspace.owner, self.workspace.pipeline.shared

        def work(tx: Transaction) -> dict[str, Dataset | None]:
            found = {
                name: Datasets(tx).find(one.dataset, owner.org) for name, one in declared.items()
            }
            return {
                n: d if d is not None and readable(d, owner) else None for n, d in found.items()
            }

        return self.workspace.database.durably(work) if declared else {}

    def damaged(self, name: str, version: int | None = None) -> tuple[Resolved, list[Damage]]:
        """List files of a version, and of its metadata, that differ from what was published. Reads
        every byte."""
        found = self.resolve(name, version)
        files = self.workspace.warehouse.expected(found.fragments)
        about = self.workspace.warehouse.expected_metadata(
            found.fragments, found.version.metadata_files
        )
        return found, damaged([*files, *about])
