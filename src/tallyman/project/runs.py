"""Runs of a project: find them, their targets, their files and their reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from tallyman.control.bind.vouch import vouched
from tallyman.control.conclude import upkeep
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.publish.old_runs import OldRun, OldRuns
from tallyman.control.rejections.chosen import Chosen
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.run import RunResult, Status
from tallyman.domain.pipeline.selection import find_asset
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.past_run import Run, find_folder
from tallyman.errors import NotFound, RunRemoved, UsageError
from tallyman.on_demand import OnDemand
from tallyman.query.diff.compare import RunComparison, RunSide, compare
from tallyman.query.report.run import KnownRun, Report, report
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.run.breakers import CLOSED, Breakers, OpenBreaker
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs
from tallyman.registry.seals import Seals

if TYPE_CHECKING:
    from tallyman.control.conclude import close
else:
    close = OnDemand("tallyman.control.conclude.close")


@dataclass(frozen=True, slots=True)
class ProjectRuns:
    """Answers questions about runs, and removes them; nothing here makes anything."""

    workspace: Workspace

    def target(self, asset: str, partition: str | None = None) -> Target:
        """Parse an asset and a partition as a person writes them; the partition is optional."""
        declared = find_asset(self.workspace.pipeline, asset).partitioned_by
        if partition is not None and declared is None:
            raise UsageError(f"{asset} is not partitioned")
        return Target(asset, declared.parse(partition) if declared and partition else None)

    def __call__(
        self, *, limit: int = 20, meta: Mapping[str, str] | None = None
    ) -> list[RunRecord]:
        """List runs, newest first; with `meta`, only those with these notes."""
        upkeep.upkeep(self.workspace.database, self.workspace.settings)
        return self.workspace.database.durably(
            lambda tx: Runs(tx).list(self.workspace.owner, limit=limit, meta=meta)
        )

    def unfinished(self) -> list[Materialization]:
        """List targets that failed or were never made, in any run, and were not made since."""
        upkeep.upkeep(self.workspace.database, self.workspace.settings)
        return self.workspace.database.durably(
            lambda tx: Materializations(tx).unfinished(self.workspace.owner)
        )

    def remove(self, runs: Sequence[str], *, confirm: bool = False) -> list[OldRun]:
        """Remove the folders of these runs; without `confirm`, only list them."""
        upkeep.upkeep(self.workspace.database, self.workspace.settings)
        return OldRuns(self.workspace).named(runs, confirm=confirm)

    def remove_old(self, *, older_than_s: float, confirm: bool = False) -> list[OldRun]:
        """Remove the folders of runs that are older, where nothing needs them."""
        upkeep.upkeep(self.workspace.database, self.workspace.settings)
        return OldRuns(self.workspace).older_than(older_than_s, confirm=confirm)

    def open_breakers(self) -> list[OpenBreaker]:
        """List circuit breakers that tripped and were not closed since."""
        return self.workspace.database.durably(lambda tx: Breakers(tx).open(self.workspace.owner))

    def close_breaker(self, asset: str, *, reason: str | None = None) -> int:
        """Close the breakers of an asset; return their number."""
        owner, key = self.workspace.owner, uuid4()

        def work(tx: Transaction) -> int:
            found = [one for one in Breakers(tx).open(owner) if one.asset == asset]
            if found:
                actor, details = self.workspace.actor, {"reason": reason}
                Audit(tx, owner).add(CLOSED, actor, asset, details=details, key=key)
            return len(found)

        return self.workspace.database.durably(work)

    def find(self, run: str) -> RunRecord:
        """Find a run by name, unique prefix, folder, or `latest`, with its status brought up to
        date."""
        upkeep.upkeep(self.workspace.database, self.workspace.settings)
        return self.workspace.database.durably(lambda tx: Runs(tx).get(run, self.workspace.owner))

    def by_id(self, run: UUID) -> RunRecord:
        return self.workspace.database.durably(lambda tx: Runs(tx).by_id(run))

    def latest(self) -> list[Materialization]:
        """Return the newest row of every asset and partition."""
        upkeep.upkeep(self.workspace.database, self.workspace.settings)
        return self.workspace.database.durably(
            lambda tx: Materializations(tx).latest_of_each(self.workspace.owner)
        )

    def result_of(self, run: RunRecord) -> RunResult:
        return close.result_of(self.workspace.database, run)

    def materializations(self, run: RunRecord) -> list[Materialization]:
        return self.workspace.database.durably(lambda tx: Materializations(tx).of_run(run.id))

    def folder(self, run: str) -> Run:
        """Open the run's files; also of a run copied from elsewhere that the registry does not
        know."""
        place, record = self.place(run)
        known = self.workspace.database.durably(
            lambda tx: vouched(tx, self.workspace.settings, record, place)
        )
        return Run.open(place, self.reused(record), known)

    def folder_of(self, run: RunRecord) -> Run | None:
        """Open the run's files; None if the folder was removed or never created."""
        try:
            return self.folder(run.name)
        except NotFound:
            return None

    def place(self, run: str) -> tuple[Path, RunRecord | None]:
        """Find the run's folder, without reading its files."""
        record: RunRecord | None = None
        try:
            record = self.find(run)
            if record.removed_at is not None:
                raise RunRemoved(record.name, record.removed_at, str(record.removed_by))
            place = self.workspace.home / record.folder
            if place.is_dir():
                return place, record
            raise NotFound("folder of the run", place.name)
        except NotFound:
            copied = find_folder(
                self.workspace.settings.runs_folder, record.name if record else run
            )
            if copied is None:
                raise
            return copied, record

    def reused(self, run: RunRecord | None) -> dict[Target, Path]:
        rows = self.materializations(run) if run else []
        return {
            row.target: (self.workspace.home / str(row.location)).parent
            for row in rows
            if row.status is Status.SKIPPED
        }

    def chosen(self, run: str, *, asset: str | None = None, where: str | None = None) -> Chosen:
        """Select rejections of a run; also of one copied from elsewhere that the registry does not
        know."""
        folder = self.folder(run)
        try:
            record = self.find(folder.run_id)
        except NotFound:
            record = None
        return Chosen(run=folder, record=record, asset=asset, where=where)

    def report(self, run: str) -> Report:
        """Report everything that is known about a run; also about one copied from elsewhere."""
        try:
            record = self.find(run)
        except NotFound:
            return report(self.folder(run), None, self.workspace.settings.redacted)
        return report(self.folder_of(record), self.known(record), self.workspace.settings.redacted)

    def known(self, run: RunRecord) -> KnownRun:
        """Collect what the registry knows about the run, for its report."""
        seals = self.workspace.database.durably(lambda tx: Seals(tx).of_run(run.id))
        return KnownRun(
            record=run,
            result=self.result_of(run),
            rows=self.materializations(run),
            seal=seals[0]["body"] if seals else None,
        )

    def compare(self, a: str, b: str) -> RunComparison:
        """Compare two runs: config, code, environment, inputs, ledgers."""
        return compare(self._side(a), self._side(b))

    def _side(self, run: str) -> RunSide:
        folder = self.folder(run)
        try:
            return RunSide(folder, self.known(self.find(folder.run_id)))
        except NotFound:
            return RunSide(folder, None)
