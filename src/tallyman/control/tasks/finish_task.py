"""Finish an attempt at a target: check its files, and record, publish and complete in one
transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from tallyman.control.dispatch import report as reports
from tallyman.control.dispatch.report import Reported
from tallyman.control.openlineage.files import Emitter
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.target.package import MadeTarget
from tallyman.control.target.record import TargetRecord
from tallyman.control.tasks.advance import advance, by_tasks, locked
from tallyman.control.tasks.assign_task import own_run
from tallyman.control.tasks.projects import TaskProjects
from tallyman.domain.history.materialization import Made, RunRecord
from tallyman.domain.pipeline.target import Target, folder_of
from tallyman.domain.task.fence import AttemptReport, ReportStatus, ReportVerdict, judge
from tallyman.domain.task.task import TARGET, Task
from tallyman.domain.version.dataset import Fragment
from tallyman.domain.version.owner import Owner
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.files.run_folder import RunFolder
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import (
    FragmentGone,
    OutcomeUnfit,
    StorageFailed,
    TallymanError,
    UsageError,
    VersionConflict,
)
from tallyman.on_demand import OnDemand
from tallyman.registry.database import Transaction
from tallyman.registry.run.runs import Runs
from tallyman.registry.task.tasks import Tasks

if TYPE_CHECKING:
    from pyarrow import parquet as pq
else:
    pq = OnDemand("pyarrow.parquet")

PASSING = (VersionConflict, FragmentGone)
"""What another attempt, with the versions that are current then, may not meet again."""


@dataclass(frozen=True, slots=True)
class TaskFinisher:
    """Finishes one attempt at a task that makes a target."""

    projects: TaskProjects
    owner: Owner
    report: AttemptReport
    made: MadeTarget | None
    patience: float

    def finish(self) -> Reported:
        """End the attempt. May be repeated. Raises StaleAttempt, and changes nothing, if the
        attempt no longer counts."""
        database, made = self.projects.database, self.made
        if made is None:
            return database.durably(self._plainly, self.patience)
        task = database.durably(lambda tx: Tasks(tx).get(self.report.fence.task, self.owner))
        if task.kind != TARGET or task.run_id is None:
            raise UsageError(f"task {task.id} makes no target, or was not assigned")
        if judge(task, self.report) is ReportVerdict.DUPLICATE:
            return Reported(task, task.status, duplicate=True)
        run = database.durably(lambda tx: Runs(tx).by_id(_id(task)))
        workspace = self.projects.at(self.owner, run.params.pipeline_version)
        try:
            place = _Place.of(workspace, run, made)
            place.check()
            reported = database.durably(lambda tx: self._in_one(tx, place), self.patience)
        except OSError as error:
            failed = self._failed(StorageFailed(str(task.asset), str(error)))
            return database.durably(failed._plainly, self.patience)
        except OutcomeUnfit as error:
            return database.durably(self._failed(error)._plainly, self.patience)
        if not reported.duplicate:
            place.recorded()
        return reported

    def _failed(self, error: TallymanError, *, again: bool = True) -> TaskFinisher:
        """Return the end of the same attempt, with this error in place of an outcome."""
        said = replace(
            self.report,
            status=ReportStatus.FAILED,
            retryable=again,
            error=error.facts(),
        )
        return replace(self, report=said, made=None)

    def _plainly(self, tx: Transaction) -> Reported:
        """End the attempt without an outcome, and go on with its run if that was the last one."""
        reported = reports.complete(tx, self.owner, self.report)
        task = reported.task
        if task.kind == TARGET and task.run_id is not None and not reported.duplicate:
            advance(tx, self.projects, locked(tx, task.run_id))
        return reported

    def _in_one(self, tx: Transaction, place: _Place) -> Reported:
        task = Tasks(tx).lock(self.report.fence.task, self.owner)
        if judge(task, self.report) is ReportVerdict.DUPLICATE:
            return Reported(task, task.status, duplicate=True)
        try:
            with tx.transaction():
                return self._recorded(tx, task, place)
        except TallymanError as error:
            # Nobody else waits for this target: the next attempt reads what is current then.
            if isinstance(error, PASSING) and _id(task) == own_run(task):
                return self._failed(error)._plainly(tx)
            raise

    def _recorded(self, tx: Transaction, task: Task, place: _Place) -> Reported:
        run = locked(tx, _id(task))
        if not by_tasks(run):
            raise self.report.fence.stale(task)
        place.put()
        key = uuid5(task.id, f"approval:{task.attempt}")
        TargetRecord(tx, run, run.actor, str(task.worker)).add(place.made.outcome, key)
        reported = reports.complete(tx, self.owner, self.report)
        trouble = advance(tx, self.projects, run).trouble
        if trouble is not None and run.id == own_run(task):
            raise trouble
        return reported


@dataclass(frozen=True, slots=True)
class _Place:
    """The files of an outcome: where they are, and where they belong."""

    workspace: Workspace
    run: RunRecord
    made: MadeTarget
    name: str

    @classmethod
    def of(cls, workspace: Workspace, run: RunRecord, made: MadeTarget) -> _Place:
        name = folder_of(workspace.pipeline.assets, made.outcome.target)
        return cls(workspace, run, made, name)

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.workspace.home / self.run.folder)

    def check(self) -> None:
        """Raise OutcomeUnfit unless the ledger balances and every file that is to be published is
        there, with its size and rows."""
        outcome = self.made.outcome
        rejections = [outcome.rejections] if outcome.rejections is not None else []
        if outcome.made is not None:
            self._check_ledger(outcome.made, outcome.target)
            rejections += [outcome.made.fragment, *outcome.made.registered]
        for problem in _problems(self.workspace.warehouse, rejections):
            raise OutcomeUnfit(str(outcome.target), problem)

    def _check_ledger(self, made: Made, target: Target) -> None:
        attempt = self.made.outcome.result.attempt
        place = self.folder.unfinished(self.name, attempt)
        if not place.exists():
            raise OutcomeUnfit(str(target), f"there is no folder {place.name} of attempt {attempt}")
        ledger = ledger_in(place)
        if not ledger.proof.balanced:
            raise OutcomeUnfit(str(target), "its ledger does not balance")
        if made.location != f"{self.run.folder}/{self.name}/output":
            raise OutcomeUnfit(str(target), f"it is for {made.location}")

    def put(self) -> None:
        """Move the files to their place. Only while the task is locked: no other attempt does."""
        folder = RunFolder.open(self.folder.path)
        if self.made.description is not None:
            self.made.description.write(folder)
        folder.replace(self.name, self.made.outcome.result.attempt)

    def recorded(self) -> None:
        """Append the events to those in the run folder, now that the registry has them."""
        Emitter(self.folder, self.run.owner.project).record(self.made.outcome.events)


def _problems(warehouse: Warehouse, fragments: list[Fragment]) -> Iterator[str]:
    for fragment in fragments:
        root = warehouse.of(fragment)
        for file in fragment.files:
            path = root / file.path
            found = _measured(path)
            if found is None:
                yield f"{file.path} is not there"
            elif found != (file.bytes, file.rows):
                size, rows = found
                yield (
                    f"{file.path} has {size:,} bytes and {rows:,} rows, "
                    f"not {file.bytes:,} and {file.rows or 0:,}"
                )


def _measured(path: Path) -> tuple[int, int] | None:
    try:
        return path.stat().st_size, pq.read_metadata(path).num_rows
    except (OSError, ValueError):
        return None


def _id(task: Task) -> UUID:
    assert task.run_id is not None
    return task.run_id
