"""A project with `tallyman server` and `tallyman worker`, each a process of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tallyman.control.dispatch import operate
from tallyman.domain.task.event import Scope
from tallyman.domain.task.task import DEFAULT_POOL, TARGET, NewTask, Task, TaskTemplate, TriggerKind
from tallyman.domain.version.owner import Owner
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.task.pools import Pools
from tallyman.registry.task.tasks import Tasks
from tests.operate.shop import Service as Command
from tests.world.home import Home
from tests.world.waiting import wait_until


@dataclass
class Service:
    """`made` are the processes of `tallyman server` and `tallyman worker`. Once there is a server,
    all commands of the home use it."""

    home: Home
    made: list[Command] = field(default_factory=list)
    address: str = ""

    @property
    def owner(self) -> Owner:
        return self.home.project.settings.owner

    def server(self, **env: str) -> Command:
        """Start a server; another one gets the address of the first, whose workers know it."""
        bind = self.address.removeprefix("http://") or "127.0.0.1:0"
        words = ("server", "--json", "--workers", "0", "--bind", bind)
        self.made.append(Command(self.home.path, *words, **env))
        self.address = self.made[-1].address
        self.home.environment = {**self.home.environment, "TALLYMAN_SERVER": self.address}
        return self.made[-1]

    def worker(self, *words: str) -> Command:
        token = self.home.path / "worker.token"
        if not token.exists():
            self.home.ok("worker", "token", "create", "test", "--file", str(token))
        given = ("worker", "--server", self.address, "--token-file", str(token), *words)
        self.made.append(Command(self.home.path, *given))
        return self.made[-1]

    def run(self, name: str, *words: str, code: int = 0) -> Any:
        """Let workers make a run, and wait for its end; return what is printed."""
        reply = self.home.tallyman("run", *words, "--run-id", name)
        assert reply.code == code, str(reply)
        return reply.json

    def queued(self, run: str) -> None:
        """Wait until the run has tasks."""
        wait_until(lambda: self.tasks(run))

    def react(self, asset: str, key: str, partition: str | None = None) -> UUID:
        """Make a task that belongs to no run, as an event does."""

        def work(tx: Any) -> UUID:
            active = Pipelines(tx).active(self.owner)
            assert active is not None
            Pools(tx).ensure(self.owner, DEFAULT_POOL)
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
        for process in reversed(self.made):
            process.close()
