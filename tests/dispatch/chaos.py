"""A random history of workers, servers and accidents from a seed, and what must hold of it.

One thread takes one step after the other, so a seed is a history. Workers die, sleep past their
lease and report late or twice; servers die inside a transaction. The oracle knows what the workers
were answered, what the tables say and what was notified, and uses no rule of the code.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import psycopg

from tallyman.control.dispatch import operate, steps
from tallyman.control.dispatch.claim import Claimed
from tallyman.domain.task.event import Event, Scope
from tallyman.domain.task.fence import Fence
from tallyman.domain.task.task import Task
from tallyman.errors import TallymanError, TaskInState
from tests.dispatch.desk import Desk, fence_of

CHAIN = ("feed", "clean", "totals")
SLOTS = 2
SOURCES = 4
SCOPES = 2
ACCIDENTS = 60
STATE = """
    SELECT (SELECT count(*) FROM tasks WHERE status = 'Running') AS running,
           (SELECT count(*) FROM slots WHERE task_id IS NOT NULL) AS taken,
           (SELECT count(*) - count(DISTINCT asset) FROM tasks
            WHERE status = 'Running' AND asset <> 'feed') AS too_many,
           (SELECT count(*) FROM tasks t WHERE status = 'Queued' AND held_by IS NULL
            AND (asset = 'feed' OR NOT EXISTS (SELECT FROM tasks r WHERE r.asset = t.asset
                                               AND r.status = 'Running'))) AS may_begin,
           (SELECT count(*) FROM events) AS events,
           ARRAY(SELECT id::text || attempt FROM tasks
                 WHERE status = 'Queued' AND held_by IS NULL) AS queued
"""
Transactions = Callable[[], AbstractContextManager[Any]]


class Died(Exception):
    """A process was killed inside a transaction."""


@dataclass
class Chaos:
    desk: Desk
    seed: int
    random: random.Random = field(init=False)
    datasets: dict[str, UUID] = field(default_factory=dict)
    held: list[Fence] = field(default_factory=list)
    """Attempts that some worker still believes in, however old."""
    completed: Counter[UUID] = field(default_factory=Counter)
    """For each task, how many completions were accepted as new."""
    emitted: set[tuple[UUID, str]] = field(default_factory=set)
    """What was accepted: producer and scope."""
    queued: set[str] = field(default_factory=set)
    """The tasks that could be claimed after the last step."""
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.desk.pool("two", [{}] * SLOTS)
        for before, after in pairwise(CHAIN):
            self.datasets[before] = uuid4()
            rest = {"pool": "two", "priority": 1, "max_concurrency": 1}
            self.desk.listen(self.datasets[before], after, **rest)
        self.desk.hear()
        self.desk.add(SOURCES, asset=CHAIN[0], pool="two")

    def run(self, most: int = 400) -> list[str]:
        """Let accidents happen, then let the work finish; return what was violated first."""
        try:
            for n in range(most):
                self.step(accidents=n < ACCIDENTS)
                self.look()
                if self.broken:
                    return self.broken
                if n >= ACCIDENTS and self.quiet():
                    break
        except psycopg.Error as error:  # a constraint of the tables noticed it
            return [f"{type(error).__name__}"]
        return self.afterwards()

    # ---- steps ------------------------------------------------------------------------------

    def step(self, *, accidents: bool) -> None:
        # Once the accidents are over, leases still end: nobody renews those of dead workers.
        if not accidents and self.random.random() < 0.05:
            self.sleep_past_lease()
        calm = (self.loops, self.claim, self.claim, self.work)
        bad = (
            *(self.sleep_past_lease, self.die_claiming, self.cancel),
            *(self.die_reporting, self.emit_only, self.late, self.worker_dies),
        )
        self.random.choice((*calm, *bad) if accidents else calm)()

    def loops(self) -> None:
        steps.reap(self.desk.database, grace_s=0)
        steps.requeue(self.desk.database)

    def claim(self) -> None:
        found = self.desk.claim_next(pools=("two",))
        if isinstance(found, Claimed):
            self.held.append(fence_of(found))
            return
        row = self.desk.rows(STATE)[0]
        if row["may_begin"] and row["taken"] < SLOTS:
            self.broken.append(f"a claim found none of {row['may_begin']} tasks")

    def work(self) -> None:
        """Some attempt, current or not, reports that it is done; sometimes twice."""
        if not self.held:
            return
        fence = self.held.pop(self.random.randrange(len(self.held)))
        self.finish(fence)
        if self.random.random() < 0.3:
            self.finish(fence)

    def finish(self, fence: Fence) -> None:
        task = self.desk.task(fence.task)
        counts, again = current(fence, task), task.status == "Completed"
        events = self.events(task.asset)
        try:
            answer = self.desk.complete(fence, *events)
        except TallymanError:
            if counts or (again and fence.attempt == task.attempt):
                self.broken.append(f"a completion of the current attempt of {task.asset} refused")
            return
        if answer.duplicate:
            return
        self.completed[fence.task] += 1
        self.emitted |= {(fence.task, event.scope.text) for event in events}
        if not counts:
            self.broken.append(f"a completion of a stale attempt of {task.asset} accepted")

    def events(self, asset: str) -> list[Event]:
        dataset = self.datasets.get(asset)
        scopes = range(SCOPES if asset == CHAIN[0] else 1)
        return [Event(dataset=dataset, scope=Scope(cursor=str(n))) for n in scopes if dataset]

    # ---- accidents --------------------------------------------------------------------------

    def sleep_past_lease(self) -> None:
        past = "UPDATE tasks SET lease_until = clock_timestamp() - interval '1 s' "
        self.desk.rows(past + "WHERE status = 'Running' RETURNING id")
        self.loops()

    def cancel(self) -> None:
        rows = self.desk.rows("SELECT id FROM tasks WHERE status = 'Running' ORDER BY created_at")
        if not rows or self.random.random() < 0.3:
            return
        task = self.random.choice(rows)["id"]
        with suppress(TaskInState), self.desk.database.transaction() as tx:
            operate.cancel(tx, self.desk.owner, task)
        for fence in [held for held in self.held if held.task == task]:
            self.finish(fence)  # its worker was done before it heard of that

    def emit_only(self) -> None:
        """An attempt emits, and is not heard of for a while."""
        if not self.held:
            return
        fence = self.random.choice(self.held)
        task = self.desk.task(fence.task)
        with suppress(TallymanError):
            for event in self.events(task.asset)[:1]:
                self.desk.emit(fence, event)
                self.emitted.add((fence.task, event.scope.text))

    def die_reporting(self) -> None:
        """The server dies inside the completion, after all of its statements."""
        if not self.held:
            return
        fence = self.random.choice(self.held)
        asset = self.desk.task(fence.task).asset
        self.dying(lambda: self.desk.complete(fence, *self.events(asset)))

    def die_claiming(self) -> None:
        """The server dies inside a claim: the task is everybody's as before."""
        self.dying(lambda: self.desk.claim_next(pools=("two",)))

    def dying(self, call: Callable[[], object]) -> None:
        real: Transactions = self.desk.database.transaction
        try:
            self.desk.database.transaction = dying(real)
            call()
        except (Died, TallymanError):
            pass
        finally:
            self.desk.database.transaction = real

    def worker_dies(self) -> None:
        if self.held:
            self.held.pop(self.random.randrange(len(self.held)))

    def late(self) -> None:
        """The oldest attempt that was not heard of reports after all."""
        if self.held:
            self.finish(self.held.pop(0))

    # ---- the oracle -------------------------------------------------------------------------

    def look(self) -> None:
        """What holds after every transaction."""
        row = self.desk.rows(STATE)[0]
        if row["running"] > SLOTS or row["running"] != row["taken"]:
            self.broken.append(f"{row['running']} running, {row['taken']} of {SLOTS} slots taken")
        if row["too_many"]:
            self.broken.append(f"{row['too_many']} tasks more than their assets may run")
        queued = set(row["queued"])
        if queued - self.queued and not self.desk.hear():
            self.broken.append(f"nobody heard of {len(queued - self.queued)} tasks")
        self.queued = queued
        if row["events"] != len(self.emitted):
            self.broken.append(f"{row['events']} events, {len(self.emitted)} were accepted")

    def quiet(self) -> bool:
        return not self.desk.rows("SELECT FROM tasks WHERE finished_at IS NULL LIMIT 1")

    def afterwards(self) -> list[str]:
        found = [] if self.quiet() else ["tasks that never ended"]
        tasks = self.desk.rows("SELECT id, status, event_id FROM tasks")
        for task in tasks:
            done = self.completed[task["id"]]
            if done != (task["status"] == "Completed"):
                found.append(f"{done} completions of a task that is {task['status']}")
        # Each dataset has one listener.
        reactions = Counter(task["event_id"] for task in tasks if task["event_id"])
        events = [row["id"] for row in self.desk.rows("SELECT id FROM events")]
        if reactions != Counter(events):
            found.append(f"{len(events)} events made {reactions.total()} tasks")
        return found


def current(fence: Fence, task: Task) -> bool:
    """Whether a completion has to be accepted now."""
    open_ = task.status not in ("Completed", "Canceled") and task.cancel_requested_at is None
    return fence.attempt == task.attempt and open_


def dying(real: Transactions) -> Transactions:
    @contextmanager
    def transaction() -> Iterator[Any]:
        with real() as tx:
            yield tx
            raise Died

    return transaction
