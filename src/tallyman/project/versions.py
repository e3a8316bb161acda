"""Versions of datasets: list, name, roll back and remove them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from tallyman.control.conclude import upkeep
from tallyman.control.pipeline import past_versions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.publish import outside, rename
from tallyman.control.publish.cleanup import Cleaned, Cleanup, Policy
from tallyman.control.publish.resolve import resolve
from tallyman.domain.version.commit import Commit
from tallyman.domain.version.dataset import Dataset, Version, checked_name
from tallyman.domain.version.outside_entry import OutsideEntry
from tallyman.errors import UsageError
from tallyman.on_demand import OnDemand
from tallyman.project.datasets import ProjectDatasets
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.version.commits import Commits
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.outside_entries import OutsideEntries
from tallyman.registry.version.snapshots import Snapshots

if TYPE_CHECKING:
    from tallyman.control.publish import rollback
else:
    rollback = OnDemand("tallyman.control.publish.rollback")


@dataclass(frozen=True, slots=True)
class ProjectVersions:
    """Changes what readers see, without making rows."""

    workspace: Workspace

    def __call__(self, name: str, *, limit: int = 100) -> list[Version]:
        """List the versions of a dataset, newest first."""

        def work(tx: Transaction) -> list[Version]:
            dataset = Datasets(tx).get(name, self.workspace.owner)
            return Commits(tx).versions(dataset.id, limit)

        return self.workspace.database.durably(work)

    def rename(self, dataset: str, name: str) -> Dataset:
        """Rename a dataset: id, paths, versions and lineage stay."""
        return self._relabel(
            dataset, lambda tx, meant: rename.rename(tx, meant, name, self.workspace.actor)
        )

    def expose(self, dataset: str) -> Dataset:
        """Show a dataset to outside readers."""
        return self._relabel(
            dataset,
            lambda tx, meant: rename.expose(tx, meant, self.workspace.actor, published=True),
        )

    def hide(self, dataset: str) -> Dataset:
        """Hide a dataset from outside readers; the project still reads it."""
        return self._relabel(
            dataset,
            lambda tx, meant: rename.expose(tx, meant, self.workspace.actor, published=False),
        )

    def differing_outside(self, dataset: str | None = None) -> list[OutsideEntry]:
        """List what outside readers do not find as it was published: of one dataset and its
        snapshots, or of the whole organisation."""

        def work(tx: Transaction) -> list[OutsideEntry]:
            if dataset is None:
                return OutsideEntries(tx, self.workspace.owner.org).differing()
            found = resolve(tx, self.workspace.owner, dataset).dataset
            return OutsideEntries(tx, self.workspace.owner.org).differing([found.id])

        return self.workspace.database.durably(work)

    def restore_outside(self) -> list[OutsideEntry]:
        """Let outside readers find everything as it was published; return what was wrong."""
        owner, actor = self.workspace.owner, self.workspace.actor
        return self.workspace.database.durably(lambda tx: outside.put_right(tx, owner, None, actor))

    def _relabel(self, dataset: str, change: Callable[[Transaction, UUID], Dataset]) -> Dataset:
        # Find the dataset first: when the transaction is repeated, its old name may not exist
        # anymore.
        database, owner = self.workspace.database, self.workspace.owner
        meant = database.durably(lambda tx: Datasets(tx).own(dataset, owner))
        return database.durably(lambda tx: change(tx, meant.id))

    def snapshot(self, name: str, alias: str, *, version: int | None = None) -> Version:
        """Give a version (default: the current one) a permanent name."""
        checked_name(alias)

        # Find the version first: when the transaction is repeated, another one may be current.
        meant = ProjectDatasets(self.workspace).resolve(name, version)
        ordinal = meant.version.ordinal

        def work(tx: Transaction) -> Version:
            Datasets(tx).lock([meant.dataset.id])  # cleanup waits, or has already marked it
            owner = self.workspace.owner
            found = resolve(tx, owner, name, ordinal)
            if Snapshots(tx).add(alias, found.dataset, ordinal, self.workspace.actor):
                OutsideEntries(tx, owner.org).put({alias: found.version.metadata_location})
                details = {"dataset": found.dataset.name, "version": ordinal}
                Audit(tx, owner).add("snapshot.made", self.workspace.actor, alias, details=details)
            return found.version

        return self.workspace.database.durably(work)

    def rollback(
        self,
        name: str | None = None,
        *,
        to: int | None = None,
        commit: str | None = None,
        message: str | None = None,
    ) -> Commit | None:
        """Restore all datasets to their state after a commit, or one dataset to a version."""
        if (commit is None) == (name is None or to is None):
            raise UsageError(
                "give either a commit, or a dataset and the version to roll it back to"
            )
        asked = rollback.asking(uuid4(), self.workspace.actor, self.workspace.owner, message)

        def work(tx: Transaction) -> Commit | None:
            if commit is not None:
                return rollback.to_commit(tx, self.workspace.warehouse, asked, commit)
            assert name is not None
            assert to is not None
            tables = past_versions.declared_tables(self.workspace)
            return rollback.to_version(tx, self.workspace.warehouse, asked, name, to, tables)

        return self.workspace.database.durably(work)

    def cleanup(
        self,
        *,
        older_than_s: float = 86400,
        keep_versions: int | None = None,
        confirm: bool = False,
    ) -> list[Cleaned]:
        """Remove what nothing points to; without `confirm`, only list it."""
        policy = Policy(older_than_s, keep_versions, confirm)
        return self._cleanup().run(policy)

    def cleanup_events(self, *, older_than_s: float = 86400, confirm: bool = False) -> int:
        """Remove sent lineage events from the spool; return their number."""
        return self._cleanup().events(Policy(older_than_s, confirm=confirm))

    def cleanup_attempts(self, *, older_than_s: float = 86400, confirm: bool = False) -> list[Path]:
        """Remove what attempts left in the folders of ended runs; return the folders."""
        return self._cleanup().attempts(Policy(older_than_s, confirm=confirm))

    def purge(self, name: str, version: int) -> Cleaned:
        """Remove one version permanently."""
        return self._cleanup().purge(name, version)

    def _cleanup(self) -> Cleanup:
        # Close runs whose process was killed first: the fragments they prepared are leftovers.
        upkeep.upkeep(self.workspace.database, self.workspace.settings)
        return Cleanup(self.workspace)
