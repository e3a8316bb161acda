"""Advance a run of tasks: make the tasks whose inputs are there, or publish what was made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from tallyman.control.dispatch.follow import template_of
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.publish.of_run import publish_run
from tallyman.control.tasks.projects import TaskProjects
from tallyman.domain.history.materialization import RunMadeBy, RunRecord, TargetState
from tallyman.domain.history.run import AssetResult, Status
from tallyman.domain.pipeline.target import Target, dependencies
from tallyman.domain.task.event import Scope
from tallyman.domain.task.state import TaskStatus
from tallyman.domain.task.task import (
    TARGET,
    NewTask,
    Task,
    TriggerKind,
)
from tallyman.errors import Conflict, StorageFailed, TallymanError
from tallyman.registry.database import Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs
from tallyman.registry.task.operations import Operations
from tallyman.registry.task.run_tasks import RunTask, RunTasks
from tallyman.registry.task.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Advanced:
    over: bool = False
    """True if nothing of the run is left to be made: it can be closed."""
    trouble: TallymanError | None = None
    """Why it could not be published."""


def locked(tx: Transaction, run: UUID) -> RunRecord:
    """Return the run as it is now; no other task of it ends until the transaction does."""
    Runs(tx).lock(run)
    return Runs(tx).by_id(run)


def advance(
    tx: Transaction,
    projects: TaskProjects,
    run: RunRecord,
    *,
    round: int | None = None,
    completed: Task | None = None,
) -> Advanced:
    """Go on with a run that the caller has locked: make its next tasks; if there are none, and none
    is open, publish it. May be repeated. `round` begins a new round of tasks; `completed` is the
    task that ends in this transaction."""
    if not run.by_tasks:
        return Advanced()
    known = RunTasks(tx).of_run(run.id, TARGET)
    now = max((task.round for task in known), default=0) if round is None else round
    tasks = {Target(t.asset, t.partition): t for t in known if t.round == now}
    states = _end_lost(tx, run, tasks)
    left = [task for task in tasks.values() if task.open]
    if run.cancel_requested_at is not None:
        stopping = [t for t in left if t.status is TaskStatus.RUNNING]
        for task in left:
            Operations(tx).cancel(task.id)
        return Advanced(over=not stopping)
    made = Tasks(tx).add(_next(projects, run, states, tasks.keys(), now))
    if made or left:
        return Advanced()
    return Advanced(over=True, trouble=_publish(tx, projects, run, completed))


def after_decision(workspace: Workspace, run: RunRecord) -> Callable[[Transaction], bool]:
    """Return a function that goes on with a run in the transaction of a decision."""
    projects = TaskProjects(workspace)
    return lambda tx: go_on(tx, projects, run.id)


def go_on(tx: Transaction, projects: TaskProjects, run: UUID) -> bool:
    """Go on with a run of tasks after a decision about one of its targets; False if nothing is left
    to be made: then the caller concludes it."""
    found = locked(tx, run)
    if found.made_by is not RunMadeBy.TASKS:
        return False
    if found.by_tasks:
        advance(tx, projects, found)
        return True
    if found.status is not Status.WAITING:
        return False
    known = RunTasks(tx).of_run(run, TARGET)
    now = max((task.round for task in known), default=0)
    begun = [Target(task.asset, task.partition) for task in known if task.round == now]
    tasks = _next(projects, found, Materializations(tx).states(run), begun, now)
    if not tasks or not Runs(tx).reopen(run):
        return False
    Tasks(tx).add(tasks)
    return True


def _end_lost(
    tx: Transaction, run: RunRecord, tasks: Mapping[Target, RunTask]
) -> list[TargetState]:
    """End the targets of tasks that ended without an outcome: their workers died or gave up.
    Return the states of all targets."""
    found = []
    for row in Materializations(tx).states(run.id):
        task = tasks.get(row.target)
        lost = task is not None and not task.open and task.status is not TaskStatus.COMPLETED
        if task is not None and lost and row.status in (Status.RUNNING, Status.PENDING):
            row = replace(row, status=_end(tx, run, row, task))
        found.append(row)
    return found


def _end(tx: Transaction, run: RunRecord, row: TargetState, task: RunTask) -> Status:
    status = Status.CANCELED if task.status is TaskStatus.CANCELED else Status.FAILED
    error = dict(task.error or {"code": status.value, "message": f"its task was {status}"})
    result = AssetResult(
        name=row.target.asset,
        partition=row.target.partition,
        attempt=row.attempt,
        status=status,
        error=error,
    )
    message = str(error.get("message", ""))
    Materializations(tx).end(run.id, row.target, status, message, result.to_json())
    return status


def _next(
    projects: TaskProjects,
    run: RunRecord,
    rows: Sequence[TargetState],
    known: Iterable[Target],
    round: int,
) -> list[NewTask]:
    """Describe the tasks of targets whose inputs are made, and that have none yet."""
    if not run.params.options.go_on and any(_bad(row) for row in rows):
        return []
    pipeline = projects.at(run.owner, run.params.pipeline_version).pipeline
    good = {row.target for row in rows if row.status.good}
    needs = dependencies(pipeline, [row.target for row in rows])
    begun = set(known)
    return [
        NewTask(
            template=template_of(
                pipeline.assets[row.target.asset],
                run.owner,
                run.params.pipeline_version,
                {"round": round},
            ),
            trigger=TriggerKind.MANUAL,
            dedupe_key=f"run:{run.id}:{row.target}:{round}",
            scope=Scope(partition_key=row.target.partition),
            run=run.id,
        )
        for row in rows
        if row.status is Status.PENDING and row.target not in begun and needs[row.target] <= good
    ]


def _bad(row: TargetState) -> bool:
    return row.status in (Status.FAILED, Status.HALTED, Status.CANCELED)


def _publish(
    tx: Transaction, projects: TaskProjects, run: RunRecord, task: Task | None
) -> TallymanError | None:
    """Publish all of the run in one commit. Return what is in the way instead of raising it."""
    try:
        with tx.transaction():
            publish_run(tx, projects.of(run.owner).warehouse, run, run.actor, task)
    except Conflict as found:
        return found
    except OSError as error:
        return StorageFailed(f"publishing {run.name}", str(error))
    return None
