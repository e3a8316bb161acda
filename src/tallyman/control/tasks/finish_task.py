"""Finish an attempt at a target: check its files, and record, publish and complete in one
transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID, uuid5

from tallyman.control.dispatch import emit
from tallyman.control.dispatch import report as reports
from tallyman.control.dispatch.report import Reported
from tallyman.control.target.package import MadeTarget
from tallyman.control.target.record import TargetRecord
from tallyman.control.tasks.advance import advance, locked
from tallyman.control.tasks.assign_task import own_run
from tallyman.control.tasks.outcome_files import OutcomeFiles
from tallyman.control.tasks.projects import TaskProjects
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.run import Status
from tallyman.domain.pipeline.target import Target
from tallyman.domain.task.fence import AttemptReport, ReportStatus, ReportVerdict, judge
from tallyman.domain.task.task import TARGET, Task
from tallyman.domain.version.owner import Owner
from tallyman.errors import (
    DatabaseUnavailable,
    OutcomeUnfit,
    PipelineMoved,
    RunClosing,
    RunEnded,
    StaleAttempt,
    StorageFailed,
    TallymanError,
    UsageError,
)
from tallyman.registry.database import Transaction
from tallyman.registry.locks import Alone, keep_out
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.run.runs import Runs
from tallyman.registry.task.tasks import Tasks

NOT_ENDING = (StaleAttempt, RunEnded, RunClosing, DatabaseUnavailable)
"""Errors that leave the attempt as it is: it does not count, or the report is to be repeated."""


@dataclass(frozen=True, slots=True)
class TaskFinisher:
    """Finishes one attempt at a task."""

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
        check_fits(task, self.report, made)
        if judge(task, self.report) is ReportVerdict.DUPLICATE:
            return Reported(task, task.status, duplicate=True)
        try:
            files = database.durably(lambda tx: self._files(tx, task, made))
            files.check()
            reported = database.durably(lambda tx: self._in_one(tx, files), self.patience)
        except OSError as error:
            failed = self._failed(StorageFailed(str(task.asset), str(error)))
            return database.durably(failed._plainly, self.patience)
        except OutcomeUnfit as error:
            return database.durably(self._failed(error)._plainly, self.patience)
        if not reported.duplicate:
            files.recorded()
        return reported

    def _files(self, tx: Transaction, task: Task, made: MadeTarget) -> OutcomeFiles:
        run = Runs(tx).by_id(_id(task))
        if not run.by_tasks and not _may_reopen(run, task, self.report):
            raise RunEnded(run.name, run.status.value)
        row = Materializations(tx).find(run.id, Target(task.asset, task.scope.partition_key))
        if row is None:
            raise UsageError(f"run {run.name} has no target {task.asset} of task {task.id}")
        workspace = self.projects.at(self.owner, run.params.pipeline_version)
        return OutcomeFiles(workspace, run, row, made)

    def _failed(self, error: TallymanError) -> TaskFinisher:
        """Return the end of the same attempt, with this error in place of an outcome."""
        said = replace(
            self.report,
            status=ReportStatus.FAILED,
            retryable=error.retryable,
            error=error.facts(),
        )
        return replace(self, report=said, made=None)

    def _plainly(self, tx: Transaction) -> Reported:
        """End the attempt without an outcome, and go on with its run if that was the last one."""
        reported = finish_plainly(tx, self.owner, self.report)
        task = reported.task
        if task.kind == TARGET and task.run_id is not None and not reported.duplicate:
            advance(tx, self.projects, locked(tx, task.run_id))
        return reported

    def _in_one(self, tx: Transaction, files: OutcomeFiles) -> Reported:
        task = Tasks(tx).lock(self.report.fence.task, self.owner)
        if judge(task, self.report) is ReportVerdict.DUPLICATE:
            return Reported(task, task.status, duplicate=True)
        try:
            with tx.transaction():
                return self._recorded(tx, task, files)
        except NOT_ENDING:
            raise
        except TallymanError as error:
            # The attempt ends with the reason. The next one reads what is current then.
            return self._failed(error)._plainly(tx)

    def _recorded(self, tx: Transaction, task: Task, files: OutcomeFiles) -> Reported:
        if not keep_out(tx, Alone.CLOSING, str(files.run.id)):
            raise RunClosing(files.run.name)
        run = self._open(tx, task)
        files.put()
        key = uuid5(task.id, f"approval:{task.attempt}")
        TargetRecord(tx, run, run.actor, str(task.worker)).add(files.made.outcome, key)
        reported = reports.complete(tx, self.owner, self.report)
        trouble = advance(tx, self.projects, run, completed=task).trouble
        if run.id == own_run(task.id):
            if trouble is not None:
                raise trouble
            _check_version(tx, run, task)
        return reported

    def _open(self, tx: Transaction, task: Task) -> RunRecord:
        """Lock the run. That of a task which was given up for good has ended; a late completion
        goes on with it."""
        run = locked(tx, _id(task))
        if run.by_tasks:
            return run
        if not _may_reopen(run, task, self.report) or not Runs(tx).reopen(run.id):
            raise RunEnded(run.name, run.status.value)
        return Runs(tx).by_id(run.id)


def finish_plainly(tx: Transaction, owner: Owner, report: AttemptReport) -> Reported:
    """End an attempt that has no outcome; UsageError if the task makes a target and needs one."""
    check_fits(Tasks(tx).get(report.fence.task, owner), report, None)
    return reports.complete(tx, owner, report)


def check_fits(task: Task, report: AttemptReport, made: MadeTarget | None) -> None:
    """Raise UsageError if a report of a target and its outcome do not say the same."""
    if made is not None and (task.kind != TARGET or task.run_id is None):
        raise UsageError(f"task {task.id} makes no target, or was not assigned")
    if task.kind != TARGET:
        return
    emit.refuse_own(task, report.events)
    if report.status is ReportStatus.WAITING:
        raise UsageError(f"task {task.id} makes a target: the outcome asks a person, not the task")
    outcome = made.outcome if made is not None else None
    good = outcome is not None and (outcome.made is not None or outcome.reused is not None)
    if good != (report.status is ReportStatus.COMPLETED):
        has = "an outcome with a result" if good else "no outcome with a result"
        raise UsageError(f"task {task.id} makes a target: it is {report.status}, and has {has}")


def _may_reopen(run: RunRecord, task: Task, report: AttemptReport) -> bool:
    """True if the run is the task's own, and ended because its last attempt was given up."""
    late = report.status is ReportStatus.COMPLETED and run.id == own_run(task.id)
    return late and run.status is Status.FAILED and run.removed_at is None


def _check_version(tx: Transaction, run: RunRecord, task: Task) -> None:
    """Raise PipelineMoved if another version was activated since the attempt was assigned. The
    datasets are locked, as by whoever activates one."""
    active = Pipelines(tx).held_active(run.owner)
    made_by = str(run.params.pipeline_version)
    if active is not None and active != made_by:
        raise PipelineMoved(task.asset, made_by, active)


def _id(task: Task) -> UUID:
    assert task.run_id is not None
    return task.run_id
