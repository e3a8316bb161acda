"""Runs that the workers of a server make: begin and resume them, and watch them to their end."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.run import begin
from tallyman.control.tasks import run_tasks, watch_run
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.run import RunResult, Status
from tallyman.domain.pipeline.target import Target
from tallyman.errors import ServerNotReady, WatchStopped
from tallyman.project.server_health import ask
from tallyman.registry.run.materializations import Materializations

if TYPE_CHECKING:
    from tallyman.control.run.progress import Listener

log = logging.getLogger("tallyman.run")
CHECK_S = 5.0
"""How often a watched run's server is asked how it is. Not at once: a server that was just started
has no workers yet."""


@dataclass(frozen=True, slots=True)
class ServerRuns:
    """The runs that are made at one address; without an address, they can only be watched."""

    workspace: Workspace
    address: str | None

    def begin(self, asked: begin.Begun, definitions: Definitions, listen: Listener) -> RunResult:
        self._check()
        return self.watch(run_tasks.submit(asked, definitions), listen)

    def resume(self, run: RunRecord, definitions: Definitions, listen: Listener) -> RunResult:
        self._check()
        database = self.workspace.database
        states = database.durably(lambda tx: Materializations(tx).states(run.id))
        made = [one.target for one in states if one.status.good or one.status is Status.WAITING]
        resumed = run_tasks.resume(run, self.workspace.actor, definitions)
        return self.watch(resumed, listen, made)

    def watch(self, run: RunRecord, listen: Listener, known: Iterable[Target] = ()) -> RunResult:
        """Show each target when it has ended, and return the result of the run. Ctrl-C raises
        WatchStopped, and the run goes on."""
        try:
            workspace = self.workspace
            health = _HealthNotes(workspace, self.address)
            watch = watch_run.RunWatch(workspace.database, workspace.home, run, listen, health.look)
            return watch.result(known)
        except KeyboardInterrupt:
            raise WatchStopped(run.name) from None

    def _check(self) -> None:
        assert self.address is not None
        health = ask(self.address, self.workspace.owner)
        if health.problem is not None:
            raise ServerNotReady(health.address, health.problem)


@dataclass(slots=True)
class _HealthNotes:
    """Says once, while a run is watched, that its server is gone or has no workers."""

    workspace: Workspace
    address: str | None
    checked_at: float = field(default_factory=time.monotonic)
    said: str | None = None

    def look(self) -> None:
        if self.address is None or time.monotonic() - self.checked_at < CHECK_S:
            return
        health = ask(self.address, self.workspace.owner)
        self.checked_at = time.monotonic()
        note = None
        if health.problem is not None:
            note = (
                f"the server at {self.address}: {health.problem}. The run goes on when it is back"
            )
        elif not health.workers:
            note = (
                f"the server at {self.address} has no workers. The run waits for one: "
                "tallyman worker --help"
            )
        if note is not None and note != self.said:
            log.warning("%s", note)
        elif note is None and self.said is not None:
            log.warning("%s", f"the server at {self.address} has workers again")
        self.said = note
