"""A project with a server and workers, each a process of its own, and runs submitted to them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tallyman.control.dispatch import operate
from tallyman.domain.task.event import Scope
from tallyman.domain.task.task import TARGET, NewTask, Task, TaskTemplate, TriggerKind
from tallyman.domain.version.owner import Owner
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.task.run_tasks import RunTasks
from tallyman.registry.task.tasks import Tasks
from tallyman.registry.task.worker_tokens import WorkerTokens
from tests.dispatch.processes import Process
from tests.world.home import Home
from tests.world.waiting import wait_until

SERVER = """
import sys
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.tasks.target_tasks import TargetTasks
from tallyman.server.serve import serve
from tallyman.settings import read_settings

workspace = Workspace.open(read_settings(sys.argv[1]))
serve(workspace.database, sys.argv[2], ready=lambda address: print(address, flush=True),
      targets=TargetTasks(workspace))
workspace.close()
"""
WORKER = """
import signal, sys
from tallyman.settings import Secret
from tallyman.worker.client import ServerClient
from tallyman.worker.worker import Worker

address, token_file, concurrency = sys.argv[1:]
client = ServerClient(address, Secret(open(token_file).read().strip()))
worker = Worker(client, {"target": "tallyman.worker.target:work"}, ["default"],
                concurrency=int(concurrency))
signal.signal(signal.SIGTERM, lambda *_: worker.drain())
print("working", flush=True)
worker.run()
"""
SUBMIT = """
import json, sys
from datetime import UTC, datetime
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.tasks import run_tasks
from tallyman.domain.history.options import Options
from tallyman.domain.history.run import RunIdentity
from tallyman.project.making import ProjectMaking
from tallyman.registry.run.runs import Runs
from tallyman.settings import read_settings

home, what, name, given = sys.argv[1:]
given = json.loads(given)
workspace = Workspace.open(read_settings(home))
making = ProjectMaking(workspace)
if what == "submit":
    options = Options(selection=tuple(given.get("selection", ())), go_on=given.get("go_on", True),
                      good_partitions=given.get("good_partitions", False))
    identity = RunIdentity.of(name, now=datetime.now(UTC))
    asked = making._asked(identity, options, given.get("partitions"), given.get("force", False))
    chosen = list(dict.fromkeys(target.asset for target in asked.targets))
    run_tasks.submit(asked, making._definitions(chosen, options))
else:
    run = workspace.database.durably(lambda tx: Runs(tx).get(name, workspace.owner))
    if what == "resume":
        options, assets = run.params.options, list(run.params.assets)
        run_tasks.resume(run, workspace.actor, making._definitions(assets, options))
    else:
        run_tasks.cancel(workspace.database, run)
workspace.close()
"""


@dataclass
class Service:
    home: Home
    processes: list[Process] = field(default_factory=list)
    address: str = ""

    @property
    def owner(self) -> Owner:
        return self.home.project.settings.owner

    def server(self, **env: str) -> Process:
        """Start a server; another one gets the address of the first, whose workers know it."""
        bind = self.address.removeprefix("http://") or "127.0.0.1:0"
        started = Process(SERVER, str(self.home.path), bind, **env)
        self.processes.append(started)
        self.address = started.first
        return started

    def worker(self, concurrency: int = 1, **env: str) -> Process:
        token = self.home.path / "worker.token"
        if not token.exists():
            database = self.home.project.database
            made = database.durably(lambda tx: WorkerTokens(tx).add(self.owner, "test"))
            token.write_text(made)
        started = Process(WORKER, self.address, str(token), str(concurrency), **env)
        self.processes.append(started)
        return started

    def call(self, what: str, name: str, **given: Any) -> None:
        words = [sys.executable, "-c", SUBMIT, str(self.home.path), what, name, json.dumps(given)]
        done = subprocess.run(words, capture_output=True, text=True, cwd=self.home.path)
        assert done.returncode == 0, done.stderr

    def react(self, asset: str, key: str, partition: str | None = None) -> UUID:
        """Make a task that belongs to no run, as an event does."""

        def work(tx: Any) -> UUID:
            active = Pipelines(tx).active(self.owner)
            assert active is not None
            RunTasks(tx).ensure_pool(self.owner)
            template = TaskTemplate(
                org=self.owner.org,
                project=self.owner.project,
                asset=asset,
                kind=TARGET,
                pipeline_version=active[0],
            )
            scope = Scope(partition_key=partition)
            new = NewTask(template=template, trigger=TriggerKind.EVENT, dedupe_key=key, scope=scope)
            operate.create(tx, [new])
            return new.id

        return self.home.project.database.durably(work)

    def task(self, task: UUID) -> Task:
        return self.home.project.database.durably(lambda tx: Tasks(tx).get(task, self.owner))

    def completed(self, task: UUID) -> None:
        """Wait until the task is completed and its run is closed."""
        wait_until(lambda: self.task(task).status.value == "Completed")
        self.ended(str(self.task(task).run_id))

    def tasks(self, run: str) -> list[tuple[str, str]]:
        """List the tasks of a run: asset and status."""
        found = self.home.sql(
            "SELECT t.asset, t.status FROM tasks t JOIN runs r ON r.id = t.run_id "
            f"WHERE r.name = '{run}' ORDER BY t.asset, t.status"
        )
        return [(asset, status) for asset, status in found]

    def status(self, run: str) -> str:
        [[status]] = self.home.sql(f"SELECT status FROM runs WHERE name = '{run}'")
        return status

    def ended(self, run: str) -> str:
        """Wait until the run has ended; return its status."""
        wait_until(lambda: self.status(run) != "running", 120)
        return self.status(run)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
