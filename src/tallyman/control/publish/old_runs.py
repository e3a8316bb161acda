"""Remove runs: their folders with evidence, trace, rejections and reports.

The registry keeps the run, its seal and its lineage. As in a cleanup, rows are marked first and
files are deleted after; what a crash leaves is deleted by the next removal.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.run import Status
from tallyman.errors import InUse
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.run.removals import Removals
from tallyman.registry.run.runs import Runs

ACTIVE = {Status.RUNNING: "it is running", Status.WAITING: "it waits for approval"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRun:
    """A run that was, or would be, removed; or that stays, because something needs it."""

    run: RunRecord
    bytes: int = 0
    kept: str | None = None
    error: str | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "run_id": self.run.name,
            "folder": self.run.folder,
            "started_at": f"{self.run.started_at:%Y-%m-%dT%H:%M:%SZ}",
            "status": self.run.status.value,
            "bytes": self.bytes,
            "kept": self.kept,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class OldRuns:
    workspace: Workspace

    def named(self, names: Sequence[str], *, confirm: bool) -> list[OldRun]:
        """Remove these runs, all of them or none: InUse says what needs the first of the others."""

        def work(tx: Transaction) -> list[OldRun]:
            runs = [Runs(tx).get(name, self.workspace.owner) for name in names]
            found = self._judged(tx, list({run.id: run for run in runs}.values()))
            for one in found:
                if one.kept:
                    raise InUse(f"run {one.run.name}", one.kept)
            return self._marked(tx, found, confirm)

        return self._delete(self.workspace.database.durably(work), confirm)

    def older_than(self, seconds: float, *, confirm: bool) -> list[OldRun]:
        """Remove every ended run of this age that nothing needs."""

        def work(tx: Transaction) -> list[OldRun]:
            ids = Removals(tx).older_than(seconds, self.workspace.owner)
            found = self._judged(tx, [Runs(tx).by_id(run) for run in ids])
            return self._marked(tx, found, confirm)

        return self._delete(self.workspace.database.durably(work), confirm)

    def _judged(self, tx: Transaction, runs: Sequence[RunRecord]) -> list[OldRun]:
        for run in runs:
            Runs(tx).lock(run.id)
        ended = [run.id for run in runs if run.status not in ACTIVE]
        needed = Removals(tx).kept(ended, self.workspace.owner)
        return [
            OldRun(
                run=run,
                bytes=_size(self.workspace.home / run.folder),
                kept=ACTIVE.get(run.status) or needed.get(run.id),
            )
            for run in runs
        ]

    def _marked(self, tx: Transaction, found: list[OldRun], confirm: bool) -> list[OldRun]:
        going = [one.run for one in found if not one.kept and one.run.removed_at is None]
        if confirm and going:
            Removals(tx).mark([run.id for run in going], self.workspace.actor)
            for run in going:
                details = {"folder": run.folder}
                Audit(tx, run.owner).add(
                    "run.removed", self.workspace.actor, run.name, details=details, run=run.id
                )
        return found

    def _delete(self, found: list[OldRun], confirm: bool) -> list[OldRun]:
        if confirm:
            folders = self.workspace.database.durably(
                lambda tx: Removals(tx).folders(self.workspace.owner)
            )
            for folder in folders:
                shutil.rmtree(self.workspace.home / folder, ignore_errors=True)
        return found


def _size(folder: Path) -> int:
    """Count the bytes that become free: files that a version shares stay."""
    stats = [file.stat() for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
    return sum(stat.st_size for stat in stats if stat.st_nlink == 1)
