"""A server and a worker in the process of the test: every step of an attempt is a call, so that a
test can put anything between two of them. Database, files and Spark are real."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from tallyman.control.dispatch import operate, steps
from tallyman.control.dispatch.claim import Claimed, claim
from tallyman.control.dispatch.report import Reported
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.target.in_child import ProjectsOfChild, make
from tallyman.control.target.package import MadeTarget, TargetPackage
from tallyman.control.tasks.target_tasks import TargetTasks
from tallyman.domain.task.event import Scope
from tallyman.domain.task.fence import AttemptReport, Fence, ReportStatus
from tallyman.domain.task.retry import RetryPolicy
from tallyman.domain.task.task import DEFAULT_POOL, TARGET, NewTask, Task, TaskTemplate, TriggerKind
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.task.pools import Pools
from tallyman.registry.task.tasks import Tasks
from tallyman.settings import read_settings
from tests.dispatch.desk import fence_of
from tests.world.command import own_sessions
from tests.world.numbers import NumbersHome


class Bench:
    def __init__(self, home: NumbersHome) -> None:
        self.home = home
        self.workspace = Workspace.open(read_settings(home.path))
        self.database, self.owner = self.workspace.database, self.workspace.owner
        self.tasks = TargetTasks(self.workspace)

    def close(self) -> None:
        self.workspace.close()

    # ---- tasks ------------------------------------------------------------------------------

    def react(self, asset: str, partition: str | None, attempts: int = 3) -> UUID:
        """Make a task that belongs to no run, as an event does."""
        with self.database.transaction() as tx:
            active = Pipelines(tx).active(self.owner)
            assert active is not None
            Pools(tx).ensure(self.owner, DEFAULT_POOL)
            template = TaskTemplate(
                org=self.owner.org,
                project=self.owner.project,
                asset=asset,
                kind=TARGET,
                pipeline_version=active[0],
                retry=RetryPolicy(attempts=attempts, backoff_s=0, backoff_cap_s=0),
            )
            new = NewTask(
                template=template,
                trigger=TriggerKind.EVENT,
                dedupe_key=str(uuid4()),
                scope=Scope(partition_key=partition),
            )
            operate.create(tx, [new])
            return new.id

    def stale(self, asset: str, partition: str, attempts: int = 3) -> UUID:
        """Declare the results of a target invalid, and make a task for it: it has work to do."""
        with self.database.transaction() as tx:
            Materializations(tx).invalidate(self.owner, asset, partition)
        return self.react(asset, partition, attempts)

    def claim(self, task: UUID) -> Fence:
        with self.database.transaction() as tx:
            found = claim(tx, self.owner, task, f"w-{uuid4()}")
        assert isinstance(found, Claimed), found
        return fence_of(found)

    def assign(self, fence: Fence) -> TargetPackage:
        package = self.tasks.assign(self.owner, fence)
        assert package is not None, self.task(fence.task).error
        return package

    def make(self, package: TargetPackage) -> MadeTarget:
        """Make the target as the child of a worker does, from JSON to JSON."""
        carried = TargetPackage.of_json(_carried(package.to_json()))
        with pytest.MonkeyPatch.context() as patch, own_sessions(patch):
            projects = ProjectsOfChild()
            try:
                made = make(carried, projects)
            finally:
                projects.open(carried).session.leave_mode()
        return MadeTarget.of_json(_carried(made.to_json()))

    def attempt(self, task: UUID) -> tuple[Fence, MadeTarget]:
        """Claim the task and make its target; the end is not reported."""
        fence = self.claim(task)
        return fence, self.make(self.assign(fence))

    def complete(self, fence: Fence, made: MadeTarget | None) -> Reported:
        return self.report(fence, made, ReportStatus.COMPLETED)

    def report(self, fence: Fence, made: MadeTarget | None, status: ReportStatus) -> Reported:
        return self.tasks.finish(self.owner, AttemptReport(fence=fence, status=status), made)

    def give_up(self, task: UUID) -> None:
        """Let the lease be over, as if the worker were silent."""
        self.home.sql(
            f"UPDATE tasks SET lease_until = clock_timestamp() - interval '1 s' WHERE id = '{task}'"
        )
        assert steps.reap(self.database) == 1

    def requeue(self) -> None:
        assert steps.requeue(self.database) == 1

    # ---- looking ----------------------------------------------------------------------------

    def task(self, task: UUID) -> Task:
        with self.database.transaction() as tx:
            return Tasks(tx).get(task, self.owner)

    def status(self, task: UUID) -> str:
        return self.task(task).status.value

    def run_of(self, task: UUID) -> tuple[str, str]:
        """Return status and folder of the task's run."""
        run = self.task(task).run_id
        [(status, folder)] = self.home.query("SELECT status, folder FROM runs WHERE id = %s", run)
        return str(status), str(folder)

    def report_of(self, task: UUID) -> dict[str, Any]:
        place = self.home.path / self.run_of(task)[1] / "processing_report.json"
        return json.loads(place.read_text())


def _carried(found: Any) -> Any:
    return json.loads(json.dumps(found))
