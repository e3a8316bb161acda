"""The dispatcher that endpoints share: database, wake-ups and loops of this process."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Request

from tallyman.control.dispatch.claim import Claimed, NotClaimed
from tallyman.control.dispatch.loops import Loop, Loops
from tallyman.control.dispatch.report import Reported
from tallyman.control.target.package import MadeTarget
from tallyman.control.tasks.finish_task import finish_plainly
from tallyman.control.tasks.target_tasks import TargetTasks
from tallyman.domain.task.fence import AttemptReport, Refusal, refusal
from tallyman.domain.task.task import TARGET, Task
from tallyman.domain.version.owner import Owner
from tallyman.errors import StaleAttempt, UsageError
from tallyman.registry.database import Database
from tallyman.registry.task.pools import Pools
from tallyman.registry.task.tasks import Tasks
from tallyman.registry.task.wakeups import Wakeups
from tallyman.registry.task.worker_tokens import KnownWorker, WorkerTokens
from tallyman.server.presence import Presence

THREADS = 64
"""Calls that are answered at the same time."""
MOST_WAITING = 40
"""How many of these may be claims that wait: the rest is kept for heartbeats and reports."""
PATIENCE_S = 5.0
"""How long a report waits for a database that does not answer."""
REMEMBER_S = 2.0
"""How long a token that was found, or the pools of a pipeline, are not looked up again."""
RUNS = "runs"
"""The loop that closes runs of tasks."""


class Dispatcher:
    def __init__(self, database: Database, targets: TargetTasks | None = None) -> None:
        self.database = database
        self.wakeups = Wakeups(database)
        self.targets = targets
        """The tasks that make targets; None in a server without a project."""
        closing = [] if targets is None else [Loop(RUNS, 0.5, targets.close_runs)]
        self.loops = Loops(database, others=closing)
        self.waiting = threading.BoundedSemaphore(MOST_WAITING)
        self.draining = threading.Event()
        self.presence = Presence()
        self._workers: dict[str, tuple[KnownWorker, float]] = {}
        self._pools: dict[Owner, tuple[list[str], float]] = {}

    def start(self) -> None:
        self.loops.start()

    def drain(self) -> None:
        """Let waiting claims go with nothing: the server is about to end."""
        self.draining.set()
        self.wakeups.close()

    def stop(self) -> None:
        self.drain()
        self.loops.stop()

    def worker(self, token: str) -> KnownWorker | None:
        """Look up the worker of a token. One that was revoked is refused after at most
        REMEMBER_S."""
        now = time.monotonic()
        found = self.database.durably(lambda tx: WorkerTokens(tx).find(token), PATIENCE_S)
        if found is None:
            self._workers.pop(token, None)
        else:
            self._workers[token] = found, now + REMEMBER_S
        return found

    def known_worker(self, token: str) -> KnownWorker | None:
        """Find the worker of a token among those that called a moment ago."""
        known = self._workers.get(token)
        return known[0] if known is not None and known[1] > time.monotonic() else None

    def pools(self, owner: Owner) -> list[str]:
        """List the pools of a pipeline. A new one is known after at most REMEMBER_S."""
        now = time.monotonic()
        known = self._pools.get(owner)
        if known is None or known[1] <= now:
            found = self.database.durably(lambda tx: Pools(tx).names(owner), PATIENCE_S)
            known = self._pools[owner] = found, now + REMEMBER_S
        return known[0]

    def answer(self, owner: Owner, claimed: Claimed) -> dict[str, Any]:
        """Answer a claim with all that the work needs. A target is assigned now; if it cannot be
        made, the attempt has ended with the reason."""
        if claimed.task.kind != TARGET or self.targets is None:
            return claimed.to_json({})
        with suppress(StaleAttempt):  # canceled meanwhile, or given up
            package = self.targets.assign(owner, claimed.fence)
            if package is not None:
                answer = replace(claimed, task=self._task(owner, claimed)).to_json(package.pins)
                made_by = {"package": package.to_json(), "process": package.process}
                return answer | {"task": answer["task"] | made_by}
        self.loops.wake(RUNS)
        return NotClaimed(refusal(self._task(owner, claimed)) or Refusal.NOT_BEFORE).to_json()

    def _task(self, owner: Owner, claimed: Claimed) -> Task:
        return self.database.durably(lambda tx: Tasks(tx).get(claimed.task.id, owner))

    def finish(self, owner: Owner, report: AttemptReport, made: MadeTarget | None) -> Reported:
        """End an attempt, and have its run closed if that was the last one."""
        if self.targets is None:
            if made is not None:
                raise UsageError("this server has no project, and cannot record targets")
            return self.database.durably(lambda tx: finish_plainly(tx, owner, report), PATIENCE_S)
        done = self.targets.finish(owner, report, made)
        self.loops.wake(RUNS)
        return done


# Asynchronous, because it waits for nothing: a plain function would cost a change of threads.
async def dispatcher_of(request: Request) -> Dispatcher:
    return request.app.state.dispatcher


Dispatching = Annotated[Dispatcher, Depends(dispatcher_of)]


async def caller(request: Request) -> KnownWorker:
    """Return the worker that the gate let in."""
    return request.state.worker


Caller = Annotated[KnownWorker, Depends(caller)]
