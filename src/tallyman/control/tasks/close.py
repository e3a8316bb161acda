"""Close a run of tasks: its report, exports, last event and seal. Any server may do it, and again
if one died meanwhile."""

from __future__ import annotations

from uuid import UUID

from tallyman.control.conclude.close import RunCloser
from tallyman.control.delivery.outbox import Outbox
from tallyman.control.delivery.send import Sender
from tallyman.control.seal.signature import signer
from tallyman.control.tasks.advance import Advanced, advance, locked
from tallyman.control.tasks.assign_task import own_run
from tallyman.control.tasks.projects import TaskProjects
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.task.state import Outcome, TaskStatus
from tallyman.domain.task.task import TARGET
from tallyman.registry.database import Database, Transaction
from tallyman.registry.locks import Alone, alone
from tallyman.registry.task.run_tasks import RunTasks


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
        settings = workspace.settings
        sign = database.durably(lambda tx: signer(tx, settings))
        closer = RunCloser(database, settings, found, found.actor, sign)
        result, _ = closer.close(
            trouble=done.trouble,  # the task that ended last published it, or could not
            canceled=found.cancel_requested_at is not None,
            keep_attempts=_may_come_late(database, found),
        )
    closer.decided(result)
    # A sender that finds no receiver ends by itself, and one that fails leaves the events.
    Sender(Outbox.of(database, found.owner, workspace.home)).start().close()
    return True


def _advanced(tx: Transaction, projects: TaskProjects, run: UUID) -> tuple[RunRecord, Advanced]:
    found = locked(tx, run)
    return found, advance(tx, projects, found)


def _may_come_late(database: Database, run: RunRecord) -> bool:
    """True if the run is that of a task whose last attempt was given up: its worker may still
    complete it, and needs its files for that. Otherwise `cleanup` removes them."""
    tasks = database.durably(lambda tx: RunTasks(tx).of_run(run.id, TARGET))
    return any(
        task.status is TaskStatus.FAILED
        and run.id == own_run(task.id)
        and (task.error or {}).get("code") in (Outcome.LEASE_EXPIRED, Outcome.TIMEOUT)
        for task in tasks
    )
