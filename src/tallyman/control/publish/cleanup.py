"""Remove files that nothing points to, lineage events that were sent, and, on request, versions
that nothing can reach.

The registry decides, not the clock: rows are marked first, durably, and files are deleted after. A
process that still wants to publish them finds the mark; a crash in between leaves files for the
next cleanup.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.publish import discard
from tallyman.control.publish.old_runs import ACTIVE
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.run import Status
from tallyman.domain.version.dataset import Dataset
from tallyman.engine.files.run_folder import UNFINISHED
from tallyman.errors import InUse, NothingToRead, UsageError
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.removals import Removals
from tallyman.registry.run.runs import Runs
from tallyman.registry.spool import Spool
from tallyman.registry.version.commits import Commits
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.garbage import Garbage

FOR_EVER = 1e9
"""Seconds; older than any file."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of a cleanup: files older than `older_than_s`, and if `keep_versions` is given,
    unreachable versions older than that many newest ones."""

    older_than_s: float = 86400
    keep_versions: int | None = None
    confirm: bool = False


@dataclass
class Cleaned:
    """The files that were, or would be, removed from one dataset."""

    dataset: str
    versions: list[int] = field(default_factory=list)
    places: list[Path] = field(default_factory=list)
    fragments: list[UUID] = field(default_factory=list)
    bytes: int = 0
    error: str | None = None

    def to_json(self, root: Path) -> dict[str, object]:
        return {
            "dataset": self.dataset,
            "orphans": [os.path.relpath(place, root) for place in self.places],
            "old_versions_removed": self.versions,
            "bytes_removed": self.bytes,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Cleanup:
    workspace: Workspace

    def run(self, policy: Policy) -> list[Cleaned]:
        """Clean each dataset separately: an error in one does not stop the others."""
        listed = self.workspace.database.durably(lambda tx: Datasets(tx).list(self.workspace.owner))
        found = [self._clean(dataset.id, policy) for dataset in listed]
        return [one for one in found if one.places or one.versions or one.error]

    def events(self, policy: Policy) -> int:
        """Count the sent lineage events that were, or would be, removed."""
        removed = 0  # by a first try whose commit succeeded but whose reply was lost

        def work(tx: Transaction) -> int:
            nonlocal removed
            spool = Spool(tx)
            if not policy.confirm:
                return spool.done_with(self.workspace.owner, policy.older_than_s)
            count = spool.remove_done_with(self.workspace.owner, policy.older_than_s)
            if count:
                details = {"events": count}
                Audit(tx, self.workspace.owner).add(
                    "lineage.cleaned",
                    self.workspace.actor,
                    self.workspace.name,
                    details=details,
                )
            removed = max(removed, count)
            return removed

        return self.workspace.database.durably(work)

    def attempts(self, policy: Policy) -> list[Path]:
        """List what attempts left in the folders of ended runs: partial files, kept segments, and
        the trace of canceled runs; remove it if the policy confirms it."""
        removed: list[Path] = []  # also by a first try whose reply was lost

        def work(tx: Transaction) -> None:
            for run in Removals(tx).older_than(policy.older_than_s, self.workspace.owner):
                Runs(tx).lock(run)  # a resume waits until its leftovers are removed
                found = self._attempts(tx, Runs(tx).by_id(run))
                removed.extend(place for place in found if place not in removed)
                if policy.confirm:
                    discard.remove(found)

        self.workspace.database.durably(work)
        return removed

    def _attempts(self, tx: Transaction, run: RunRecord) -> list[Path]:
        home = self.workspace.home
        if run.status is Status.CANCELED:
            return discard.leftovers(home, run, Materializations(tx).of_run(run.id))
        place = home / run.folder / UNFINISHED
        return [place] if run.status not in ACTIVE and _files([place]) else []

    def _clean(self, dataset_id: UUID, policy: Policy) -> Cleaned:
        taken: list[Cleaned] = []

        def work(tx: Transaction) -> Cleaned:
            # Lock the dataset, so that nobody writes its metadata meanwhile.
            dataset = Datasets(tx).lock([dataset_id])[dataset_id]
            if taken and Garbage(tx).is_marked(taken[-1].fragments):
                return taken[-1]  # the first try was committed, but its reply was lost
            versions: list[int] = []
            if policy.keep_versions is not None:
                older = policy.older_than_s
                versions = Garbage(tx).unreachable(dataset.id, policy.keep_versions, older)
            taken.append(self._take(tx, dataset, versions, policy))
            return taken[-1]

        return self._delete(self.workspace.database.durably(work), policy)

    def purge(self, name: str, ordinal: int) -> Cleaned:
        """Remove one version permanently. Refused if it is current, named by a snapshot, read by a
        run, or the next target of a rollback."""

        taken: list[Cleaned] = []

        def work(tx: Transaction) -> Cleaned:
            dataset = Datasets(tx).own(name, self.workspace.owner)
            dataset = Datasets(tx).lock([dataset.id])[dataset.id]
            version = Commits(tx).version(dataset, ordinal)
            if version.metadata_location is None:
                raise UsageError(f"{dataset.name} v{ordinal} has no rows and no files")
            if version.purged_at is not None and taken:
                return taken[-1]
            if version.purged_at is not None:
                raise NothingToRead(dataset.name, ordinal, purged=True)
            why = Garbage(tx).in_use(dataset, ordinal)
            if why:
                raise InUse(f"{dataset.name} v{ordinal}", why)
            taken.append(self._take(tx, dataset, [ordinal], policy))
            return taken[-1]

        # No other leftover is this old: only the requested version is removed.
        policy = Policy(older_than_s=FOR_EVER, confirm=True)
        return self._delete(self.workspace.database.durably(work), policy)

    def _take(
        self, tx: Transaction, dataset: Dataset, versions: list[int], policy: Policy
    ) -> Cleaned:
        """Collect what to remove, and mark it as removed if the policy confirms it."""
        garbage = Garbage(tx)
        orphans = garbage.orphans(dataset.id, policy.older_than_s)
        gone = garbage.only_in(dataset.id, versions) if versions else []
        fragments = [*gone, *orphans]
        own = [self.workspace.warehouse.fragment(dataset.id, fragment) for fragment in fragments]
        made = [self.workspace.home / location for location in garbage.made_at(gone)]
        # A run's files stay, unless the version made from them is removed.
        twins = _same_bytes(own[: len(gone)], made)
        strays = self._strays(tx, dataset, versions, policy.older_than_s)
        places = [p for p in dict.fromkeys([*own, *twins, *strays]) if p.exists()]
        found = Cleaned(dataset.name, versions=versions, places=places, fragments=fragments)
        if policy.confirm and (fragments or versions):
            garbage.mark(fragments)
            garbage.purge(dataset.id, versions)
            details = {"fragments": len(fragments), "versions": versions}
            Audit(tx, self.workspace.owner).add(
                "dataset.cleaned", self.workspace.actor, dataset.name, details=details
            )
        return found

    def _strays(
        self, tx: Transaction, dataset: Dataset, without: Sequence[int], older_than_s: float
    ) -> Iterator[Path]:
        """Yield files in the dataset's folder whose id is in no row."""
        folder = self.workspace.warehouse.dataset(dataset.id)
        known = Garbage(tx).known(dataset.id, without)
        going = [Commits(tx).version(dataset, ordinal).metadata_location for ordinal in without]
        leaving = {_stem(Path(location)) for location in going if location}
        for place in sorted([*folder.glob("version/*"), *folder.glob("metadata/*")]):
            if _stem(place) in known:
                continue  # its writer may be deleting it right now
            old = place.stat().st_mtime <= time.time() - older_than_s
            if old or _stem(place) in leaving:
                yield place

    def _delete(self, found: Cleaned, policy: Policy) -> Cleaned:
        found.bytes = _freed(found.places)
        for place in found.places if policy.confirm else ():
            try:
                shutil.rmtree(place) if place.is_dir() else place.unlink()
            except FileNotFoundError:
                continue  # the losing writer deleted its files itself
            except OSError as error:
                found.error = f"{place.name}: {error.strerror}"
        return found


def _stem(place: Path) -> str:
    return place.name.partition(".")[0]


def _files(places: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for place in places:
        found += [place] if place.is_file() else [p for p in place.rglob("*") if p.is_file()]
    return found


def _same_bytes(places: Iterable[Path], folders: Iterable[Path]) -> list[Path]:
    """List files in `folders` that are hard links of files in `places`."""
    known = {_identity(file) for file in _files(places)} - {None}
    return [f for f in _files(p for p in folders if p.exists()) if _identity(f) in known]


def _freed(places: Iterable[Path]) -> int:
    """Count the bytes that become free: a file with several hard links only if all of them are
    removed."""
    stats = [stat for file in _files(places) if (stat := _stat(file))]
    names = Counter((stat.st_dev, stat.st_ino) for stat in stats)
    once = {(stat.st_dev, stat.st_ino): stat for stat in stats}
    return sum(stat.st_size for one, stat in once.items() if names[one] >= stat.st_nlink)


def _identity(file: Path) -> tuple[int, int] | None:
    stat = _stat(file)
    return (stat.st_dev, stat.st_ino) if stat else None


def _stat(file: Path) -> os.stat_result | None:
    """Return the file's status; None if it no longer exists."""
    try:
        return file.stat()
    except FileNotFoundError:
        return None
