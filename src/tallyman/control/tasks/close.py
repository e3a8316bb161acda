"""Close a run of tasks: its report, exports, last event and seal. Any server may do it, and again
if one died meanwhile."""

from __future__ import annotations

from uuid import UUID

from tallyman import faults
from tallyman.control.conclude import ended, finish
from tallyman.control.conclude.exports import export, made_in, records_of
from tallyman.control.delivery.outbox import Outbox
from tallyman.control.delivery.send import Sender
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.run.journal import Journal
from tallyman.control.seal.seal import place, seal_of
from tallyman.control.seal.signature import signer
from tallyman.control.tasks.advance import NODE, Advanced, advance, locked
from tallyman.control.tasks.assign_task import own_run
from tallyman.control.tasks.projects import TaskProjects
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.run import RunResult, Status
from tallyman.domain.task.state import Outcome, TaskStatus
from tallyman.domain.task.task import TARGET
from tallyman.engine.files.run_folder import RunFolder
from tallyman.errors import ExportFailed, StorageFailed, TallymanError
from tallyman.faults import Point
from tallyman.registry.database import Transaction
from tallyman.registry.locks import Alone, alone
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.task.run_tasks import RunTasks
from tallyman.registry.version.commits import Commits


def close(projects: TaskProjects, run: UUID) -> bool:
    """Go on with a run that no task can move any more, and close it if it is over. False if it is
    not, or another server closes it. Meanwhile a late report has to wait: what is written here is
    what the registry has."""
    database = projects.database
    with alone(database, Alone.CLOSING, str(run)) as held:
        if not held:
            return False
        found, done = database.durably(lambda tx: _advanced(tx, projects, run))
        if not done.over:
            return False
        workspace = projects.of(found.owner)
        _close(workspace, found, done.trouble)
    # A sender that finds no receiver ends by itself, and one that fails leaves the events.
    Sender(Outbox.of(database, found.owner, workspace.home)).start().close()
    return True


def _advanced(tx: Transaction, projects: TaskProjects, run: UUID) -> tuple[RunRecord, Advanced]:
    found = locked(tx, run)
    return found, advance(tx, projects, found)


def _close(workspace: Workspace, run: RunRecord, trouble: TallymanError | None) -> None:
    database, settings = workspace.database, workspace.settings
    sign = database.durably(lambda tx: signer(tx, settings))
    journal = Journal(database, run, run.id, NODE, run.actor, sign)
    canceled = run.cancel_requested_at is not None
    result = finish.conclude(run.identity, _rows(workspace, run), run.folder, canceled=canceled)
    if result.status is Status.CANCELED:
        journal.discard(settings.home)
        rows = _rows(workspace, run)
        result = finish.conclude(run.identity, rows, run.folder, canceled=True)
    commit = database.durably(lambda tx: Commits(tx).of_run(run.id))
    result = result.with_commit(commit)
    trouble = trouble or _export(workspace, run, result)
    if trouble is not None:
        result = result.with_error(trouble.facts())
    rows = _rows(workspace, run)
    folder = RunFolder.open(settings.home / run.folder)
    finish.set_aside(folder, finish.ENDS)  # of an earlier end, or of a server that died here
    finish.write(folder, run.identity, result, rows, keep_attempts=_may_come_late(workspace, run))
    events = ended.concluded(settings.home, run, result)
    ended.record(settings.home, ended.Released(run, result.status, events))
    sealed = seal_of(settings.home, run, result, rows)
    journal.finish(result.status, sealed, events)
    faults.reach(Point.SEALED)
    place(database, settings.home, settings.owner)


def _may_come_late(workspace: Workspace, run: RunRecord) -> bool:
    """True if the run is that of a task whose last attempt was given up: its worker may still
    complete it, and needs its files for that. Otherwise `cleanup` removes them."""
    tasks = workspace.database.durably(lambda tx: RunTasks(tx).of_run(run.id, TARGET))
    return any(
        task.status is TaskStatus.FAILED
        and run.id == own_run(task.id)
        and (task.error or {}).get("code") in (Outcome.LEASE_EXPIRED, Outcome.TIMEOUT)
        for task in tasks
    )


def _rows(workspace: Workspace, run: RunRecord) -> list[Materialization]:
    return workspace.database.durably(lambda tx: Materializations(tx).of_run(run.id))


def _export(workspace: Workspace, run: RunRecord, result: RunResult) -> TallymanError | None:
    """Write the exports of a published run. Return what is in the way."""
    if result.commit is None:
        return None
    settings = workspace.settings
    try:
        export(records_of(settings), run.name, made_in(workspace.database, settings.home, run))
    except ExportFailed as found:
        return found
    except OSError as error:
        return StorageFailed(f"exporting {run.name}", str(error))
    return None
