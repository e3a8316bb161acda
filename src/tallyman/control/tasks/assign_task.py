"""Assign a claimed task: the run it belongs to, and the package from which its target is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4, uuid5

from tallyman.control.bind.inputs import Pins
from tallyman.control.pipeline import check
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.shared import found_shared
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.run import begin
from tallyman.control.target.assign import Assigner
from tallyman.control.target.assignment import Assignment
from tallyman.control.target.package import TargetPackage
from tallyman.control.tasks.projects import TaskProjects
from tallyman.domain.codec import to_plain
from tallyman.domain.history.materialization import Materialization, RunMadeBy, RunRecord
from tallyman.domain.history.options import Options
from tallyman.domain.history.run import RunIdentity, Status
from tallyman.domain.pipeline.target import Target
from tallyman.domain.pipeline.trigger import MANUAL
from tallyman.domain.task.fence import Fence
from tallyman.domain.task.state import TaskStatus
from tallyman.domain.task.task import Task
from tallyman.domain.version.dataset import Fragment
from tallyman.domain.version.owner import Owner
from tallyman.errors import NotFound, RunEnded, TriggerGone
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs
from tallyman.registry.task.run_tasks import RunTasks
from tallyman.registry.task.tasks import Tasks
from tallyman.registry.version.fragments import Fragments

ACTOR = "tallyman"
"""Who starts the run of a task that nobody asked for."""


def fenced(tx: Transaction, owner: Owner, fence: Fence) -> Task:
    """Lock the task of a running attempt, or raise StaleAttempt."""
    task = Tasks(tx).lock(fence.task, owner)
    if not fence.matches(task) or task.status is not TaskStatus.RUNNING:
        raise fence.stale(task)
    return task


@dataclass(frozen=True, slots=True)
class TaskAssigner:
    """Assigns one attempt at a task."""

    projects: TaskProjects
    owner: Owner
    fence: Fence

    def package(self) -> TargetPackage:
        """Look up all that making the target needs, and open the fragments it may make, so that a
        cleanup knows them if the worker dies. May be repeated."""
        database = self.projects.database
        task = database.durably(lambda tx: fenced(tx, self.owner, self.fence))
        run = self._run(task)
        workspace = self.projects.at(self.owner, run.params.pipeline_version)
        target = Target(task.asset, task.scope.partition_key)
        rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
        own = next(row for row in rows if row.target == target)
        options = run.params.options
        chosen = (target.asset,)
        definitions = Definitions(workspace, chosen, options.evidence, options.thresholds)
        assigner = Assigner(definitions, run, options, Pins(workspace, run.id, run.pins))
        assignment = assigner.assign(target, own.attempt + 1)
        opened = {name: uuid4() for name in assignment.datasets}
        assignment = replace(assignment, opened=opened)
        meaning = definitions.hash(target.asset)
        pins = pins_of(assignment, workspace)
        database.durably(lambda tx: self._begin(tx, assignment, meaning, pins))
        needed = check.upstream(workspace.pipeline, chosen) & set(workspace.pipeline.assets)
        return TargetPackage(
            assignment=assignment,
            settings=workspace.settings,
            version=workspace.version(),
            plan=workspace.plan_text,
            shared=found_shared(workspace, needed, run.pins),
            describes=run.id == own_run(task.id),
            pins=pins,
        )

    def _begin(
        self, tx: Transaction, assignment: Assignment, definition: str, pins: dict[str, Any]
    ) -> None:
        task = fenced(tx, self.owner, self.fence)
        Tasks(tx).pin(task, pins)
        run, target = assignment.run, assignment.target
        for name, own in assignment.opened.items():
            dataset = assignment.datasets[name]
            fragment = Fragment(id=own, dataset_id=dataset.id, partition=target.partition)
            Fragments(tx).open(fragment, run.id)
        Materializations(tx).start(
            run.id,
            target,
            attempt=assignment.attempt,
            definition=definition,
            node=str(task.worker),
        )

    # ---- the run ---------------------------------------------------------------------------

    def _run(self, task: Task) -> RunRecord:
        if task.run_id is None:
            return self._registered(task)
        database, found = self.projects.database, task.run_id
        run = database.durably(lambda tx: Runs(tx).by_id(found))
        if run.id == own_run(task.id):
            return self._again(task, run)
        if not run.by_tasks:
            raise RunEnded(run.name, run.status.value)
        return run

    def _asked(self, task: Task) -> tuple[begin.Begun, Definitions]:
        """Ask for the run of one task, by the pipeline version that is active now: a task may have
        waited, or failed, since before that."""
        workspace = self.projects.at(self.owner, None)
        identity = own_run(task.id)
        target = Target(task.asset, task.scope.partition_key)
        _check_trigger(task, workspace)
        asked = begin.Begun(
            actor=ACTOR,
            identity=RunIdentity(str(identity), str(identity), datetime.now(UTC)),
            targets=[target],
            options=Options(selection=(target.asset,), stored_version=workspace.version()),
            meta={"task": str(task.id), "trigger": task.trigger.value},
        )
        return asked, Definitions(workspace, (target.asset,))

    def _registered(self, task: Task) -> RunRecord:
        """Register the run of a task that has none: of one target, with the current versions."""
        asked, definitions = self._asked(task)
        run = self._planned(asked, definitions)

        def work(tx: Transaction) -> RunRecord:
            fenced(tx, self.owner, self.fence)
            Runs(tx).add(run)
            Runs(tx).hand_over(run.id, run.id)
            Materializations(tx).plan(run.id, asked.targets)
            RunTasks(tx).bind(task.id, run.id, run.params.pipeline_version)
            details = {"targets": 1, **to_plain(run.params)}
            Audit(tx, run.owner).add(
                "run.started", ACTOR, run.name, run=run.id, details=details, key=run.id
            )
            return Runs(tx).by_id(run.id)

        return self.projects.database.durably(work)

    def _again(self, task: Task, before: RunRecord) -> RunRecord:
        """Let another attempt of a task read the versions that are current now, by the pipeline
        that is active now: what the attempt before it read may be why it failed."""
        asked, definitions = self._asked(task)
        run = self._planned(asked, definitions)

        def work(tx: Transaction) -> RunRecord:
            fenced(tx, self.owner, self.fence)
            Runs(tx).lock(before.id)
            Runs(tx).reopen(before.id)
            now = Runs(tx).by_id(before.id)
            if not now.by_tasks:
                raise RunEnded(now.name, "removed" if now.removed_at else now.status.value)
            Materializations(tx).reset(before.id)
            if not _made(Materializations(tx).of_run(before.id)):
                Runs(tx).plan_again(before.id, run.pins, run.params)
                RunTasks(tx).bind(task.id, before.id, run.params.pipeline_version)
            return Runs(tx).by_id(before.id)

        return self.projects.database.durably(work)

    def _planned(self, asked: begin.Begun, definitions: Definitions) -> RunRecord:
        run = begin.planned(asked, definitions, definitions.pipeline_version())
        return replace(run, executor=run.id, executor_node=RunMadeBy.TASKS)


def pins_of(assignment: Assignment, workspace: Workspace) -> dict[str, Any]:
    """List what a target reads, apart from sources, and where what it makes is put."""
    run, warehouse = assignment.run, workspace.warehouse
    asset = workspace.pipeline.assets[assignment.target.asset]
    inputs = [
        {
            "index": index,
            "name": name,
            "dataset_uuid": str(one.fragments[0].dataset_id) if one.fragments else None,
            "version": one.version.version if one.version else None,
            "backend": "parquet",
            "files": warehouse.paths(one.fragments),
        }
        for index, (name, one) in enumerate(assignment.inputs.items())
    ]
    outputs = [
        {
            "index": index,
            "name": name,
            "dataset_uuid": str(assignment.datasets[name].id),
            "write_prefix": f"{warehouse.fragment(assignment.datasets[name].id, fragment)}/",
            "update_strategy": asset.update_strategy,
            "unique_key": asset.unique_key,
            "expected_version": run.pins.get(assignment.datasets[name].id, 0),
        }
        for index, (name, fragment) in enumerate(assignment.opened.items())
    ]
    return {"inputs": inputs, "outputs": outputs}


def own_run(task: UUID) -> UUID:
    """Return the id of the run that a task without one gets: always the same."""
    return uuid5(task, "run")


def _check_trigger(task: Task, workspace: Workspace) -> None:
    """Raise TriggerGone if the task is of an earlier version, and its asset has no trigger now."""
    found = workspace.pipeline.assets.get(task.asset)
    earlier = task.pipeline_version not in (None, workspace.version())
    if earlier and (found is None or found.trigger == MANUAL):
        raise TriggerGone(task.asset, workspace.version())
    if found is None:
        raise NotFound("asset", task.asset)


def _made(rows: Sequence[Materialization]) -> bool:
    return any(row.status.good or row.status is Status.WAITING for row in rows)
