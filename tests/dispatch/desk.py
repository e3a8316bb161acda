"""A pipeline with tasks, as a server sees it: every call is a transaction of its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from tallyman.control.dispatch import operate, steps
from tallyman.control.dispatch.claim import Claimed, NotClaimed, claim, claim_next
from tallyman.control.dispatch.emit import Emitted, emit
from tallyman.control.dispatch.report import Reported, complete, heartbeat
from tallyman.domain.task.event import Event
from tallyman.domain.task.fence import AttemptReport, Fence, ReportStatus
from tallyman.domain.task.retry import RetryPolicy
from tallyman.domain.task.task import NewTask, Task, TaskTemplate, TriggerKind
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Database, Transaction
from tallyman.registry.server.address import connect
from tallyman.registry.task.events import Listeners
from tallyman.registry.task.leases import Beat
from tallyman.registry.task.pools import Pools
from tallyman.registry.task.tasks import Tasks
from tallyman.registry.task.wakeups import Wakeups
from tallyman.registry.task.worker_tokens import WorkerTokens

NUMBERS = itertools.count()
TABLES = ("slots", "tasks", "events", "listeners", "schedules", "pools")
FAST = RetryPolicy(attempts=3, timeout_s=600, backoff_s=0, backoff_cap_s=0)


class Desk:
    def __init__(self, address: str | None, folder: Path) -> None:
        """Without an address, the database is an embedded one in the folder."""
        self.address = address
        self.database = Database(address, folder, most_idle=24)
        self.wakeups = Wakeups(self.database)
        self.owner = Owner("default", f"project-{next(NUMBERS)}")
        self.pool("default", None)
        self._ear: Transaction | None = None

    def empty(self) -> None:
        """Forget everything: loops see all pipelines."""
        with self.database.transaction() as tx:
            for table in TABLES:
                tx.execute(f"DELETE FROM {table}".encode())

    def close(self) -> None:
        self.wakeups.close()
        if self._ear is not None:
            self._ear.close()
        self.database.close()

    # ---- setting up -------------------------------------------------------------------------

    def pool(self, name: str, slots: Sequence[dict[str, str]] | None) -> None:
        with self.database.transaction() as tx:
            Pools(tx).define(self.owner, name, slots)

    def template(self, asset: str = "orders", **rest: Any) -> TaskTemplate:
        given = {"kind": "test", "retry": FAST, **rest}
        return TaskTemplate(org=self.owner.org, project=self.owner.project, asset=asset, **given)

    def add(self, count: int = 1, asset: str = "orders", **rest: Any) -> list[UUID]:
        with self.database.transaction() as tx:
            return operate.create(tx, self.new(count, asset, **rest))

    def new(self, count: int, asset: str = "orders", **rest: Any) -> list[NewTask]:
        given = {"template": self.template(asset, **rest), "trigger": TriggerKind.MANUAL}
        return [NewTask(**given, dedupe_key=str(uuid4())) for _ in range(count)]

    def listen(self, dataset: UUID, asset: str, held_by: str | None = None, **rest: Any) -> None:
        with self.database.transaction() as tx:
            Listeners(tx).add(dataset, self.template(asset, **rest), held_by=held_by)

    def token(self, name: str = "w") -> str:
        with self.database.transaction() as tx:
            return WorkerTokens(tx).add(self.owner, name)

    # ---- as a worker ------------------------------------------------------------------------

    def try_claim(self, task: UUID, worker: str) -> Claimed | NotClaimed:
        with self.database.transaction() as tx:
            return claim(tx, self.owner, task, worker)

    def claim(self, task: UUID) -> Fence:
        found = self.try_claim(task, f"w-{uuid4()}")
        assert isinstance(found, Claimed), found
        return fence_of(found)

    def refused(self, task: UUID) -> str:
        found = self.try_claim(task, "another")
        assert isinstance(found, NotClaimed)
        return found.reason.value

    def hear(self) -> list[str]:
        """Return what was notified since the last call, as it is sent."""
        if self._ear is None:
            self._ear = connect(self.database.url())
            self._ear.execute("LISTEN tallyman_tasks")
            self._ear.execute("LISTEN until_now")
        self._ear.execute("NOTIFY until_now")  # notifications come in the order of commits
        heard = list[str]()
        for one in self._ear.notifies():
            if one.channel == "until_now":
                break
            heard.append(one.payload)
        return heard

    def claim_next(self, wait_s: float = 0, pools: Sequence[str] = ("default",)) -> Any:
        worker = f"w-{uuid4()}"
        return claim_next(self.database, self.wakeups, self.owner, pools, worker, wait_s)

    def emit(self, fence: Fence, *events: Event) -> Emitted:
        with self.database.transaction() as tx:
            return emit(tx, self.owner, fence, events)

    def beat(self, fence: Fence) -> Beat:
        with self.database.transaction() as tx:
            return heartbeat(tx, self.owner, fence)

    def complete(self, fence: Fence, *events: Event) -> Reported:
        return self.report(fence, ReportStatus.COMPLETED, events=events)

    def fail(self, fence: Fence, *, retryable: bool = True) -> Reported:
        return self.report(fence, ReportStatus.FAILED, retryable=retryable)

    def report(self, fence: Fence, status: ReportStatus, **rest: Any) -> Reported:
        with self.database.transaction() as tx:
            return complete(tx, self.owner, AttemptReport(fence=fence, status=status, **rest))

    # ---- as the loops -----------------------------------------------------------------------

    def expire(self, task: UUID) -> None:
        """Let the lease of a task be over, and give it up."""
        self.rows(
            "UPDATE tasks SET lease_until = clock_timestamp() - interval '1 second' "
            "WHERE id = %s RETURNING id",
            task,
        )
        assert steps.reap(self.database) >= 1

    def requeue(self) -> int:
        return steps.requeue(self.database)

    # ---- looking ----------------------------------------------------------------------------

    def task(self, task: UUID) -> Task:
        with self.database.transaction() as tx:
            return Tasks(tx).get(task, self.owner)

    def outcomes(self, task: UUID) -> list[str | None]:
        with self.database.transaction() as tx:
            return [row["outcome"] for row in Tasks(tx).attempts(task)]

    def tasks(self, asset: str) -> list[Task]:
        with self.database.transaction() as tx:
            return [t for t in Tasks(tx).list(self.owner, limit=1000) if t.asset == asset]

    def rows(self, query: str, *given: Any) -> list[dict[str, Any]]:
        with self.database.transaction() as tx:
            return tx.execute(query.encode(), given).fetchall()

    def counts(self) -> dict[str, int]:
        """How many rows each table of the dispatcher has."""
        tables = ("tasks", "attempts", "events", "slots")
        return {t: self.rows(f"SELECT count(*) AS n FROM {t}")[0]["n"] for t in tables}


def fence_of(found: Claimed) -> Fence:
    assert found.task.lease_token is not None
    return Fence(task=found.task.id, attempt=found.task.attempt, lease_token=found.task.lease_token)
