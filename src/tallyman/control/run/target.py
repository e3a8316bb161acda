"""Make one target of a local run: assign it, make it or reuse its last result, and record it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tallyman import faults
from tallyman.control.run.workbench import Workbench
from tallyman.control.target.assignment import Assignment, TargetOutcome
from tallyman.control.target.make_target import (
    MakingHooks,
    TargetWork,
    attempt_tag,
    failed,
)
from tallyman.control.target.target_inputs import TargetInputs
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.run import Status
from tallyman.domain.pipeline.target import Target, folder_of
from tallyman.domain.task.retry import RetryPolicy
from tallyman.domain.version.dataset import Fragment
from tallyman.errors import RunCanceled, RunTaken, StorageFailed, TallymanError, TargetTimeout
from tallyman.faults import Point
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from tallyman.control.target import make
    from tallyman.control.target.make import Making
    from tallyman.engine.asset.work import Work
else:
    make = OnDemand("tallyman.control.target.make")

log = logging.getLogger("tallyman.run")

INTERRUPT_EVERY = 1.0
"""Seconds between interrupts: a job that starts just after one must stop too."""


class Deadline:
    """Interrupts the attempt when its time is over, for the duration of a `with` block. Without a
    limit it does nothing."""

    def __init__(self, limit_s: float | None, interrupt: Callable[[], None]) -> None:
        self.limit_s = limit_s
        self.interrupt = interrupt
        self.passed = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tallyman-deadline", daemon=True)

    def __enter__(self) -> Deadline:
        if self.limit_s is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.limit_s is not None:
            self._thread.join(timeout=10)

    def _watch(self) -> None:
        pause = self.limit_s
        while not self._over.wait(pause):
            self.passed = True
            with contextlib.suppress(Exception):  # Spark may be gone: the attempt has failed then
                self.interrupt()
            pause = INTERRUPT_EVERY


@dataclass(frozen=True, slots=True)
class JournalHooks(MakingHooks):
    """Records in the registry how far the making of a target is, shows its phases, and stops it on
    a cancel."""

    bench: Workbench
    assignment: Assignment
    deadline: Deadline

    def started(self, definition: str, events: list[LineageEvent]) -> None:
        bench, target, attempt = self.bench, self.assignment.target, self.assignment.attempt
        bench.journal.started(target, attempt, definition, events)
        bench.lineage.recorded(events)
        bench.folder.set_aside(folder_of(bench.definitions.pipeline.assets, target), attempt - 1)

    def opened(self, fragment: Fragment) -> None:
        self.bench.journal.opened(fragment)

    def phase(self, name: str) -> None:
        if self.canceled:
            raise RunCanceled(self.bench.identity.run_id)
        self.bench.terminal.show(self.assignment.target, name)

    def step(self, step_id: str) -> None:
        self.bench.journal.step(self.assignment.target, step_id)

    @property
    def canceled(self) -> bool:
        return self.bench.watch.stop.is_set() or self.deadline.passed


@dataclass(frozen=True, slots=True)
class TargetMaker:
    """Makes the targets of one run, in several threads. A target is recorded before its dependents
    start."""

    bench: Workbench

    def run(self, target: Target, attempt: int) -> bool:
        """Make or reuse the target. True if its dependents can start."""
        if self.bench.watch.stop.is_set():
            return False
        self.bench.terminal.show(target, "opening")
        result = self._tried(target, attempt).result
        self.bench.terminal.show(target, "done", result)
        return result.status.good

    def _tried(self, target: Target, attempt: int) -> TargetOutcome:
        """Make the target, again after failures that may pass, as often as its asset allows."""
        policy, stop = self._policy(target), self.bench.watch.stop
        for number, pause in enumerate(policy.delays_s if policy else (), 1):
            outcome = self._outcome(target, attempt)
            if not outcome.retryable or stop.is_set():
                return outcome
            message = str((outcome.result.error or {}).get("message", "")).rstrip(".")
            tries = len(policy.delays_s) + 1 if policy else 1
            log.warning(
                "%s: try %d of %d failed: %s. The next begins in %d s.",
                target, number, tries, message, pause,
            )  # fmt: skip
            if stop.wait(pause):
                return outcome
            attempt += 1
        return self._outcome(target, attempt)

    def _policy(self, target: Target) -> RetryPolicy | None:
        return self.bench.definitions.pipeline.assets[target.asset].retry

    def _outcome(self, target: Target, attempt: int) -> TargetOutcome:
        bench = self.bench
        try:
            assignment = bench.assigner.assign(target, attempt)
            deadline = self._deadline(assignment)
            work = self._work(assignment, deadline)
            inputs = self.inputs(work)
            outcome = work.reused(inputs.pins)
            if outcome is not None:
                bench.journal.record(outcome)
                return outcome
            return self._make(work, inputs, deadline)
        except RunTaken:
            raise
        except OSError as error:
            # The process that took the run over may have deleted the files that this one was
            # writing.
            bench.journal.check()
            found: TallymanError = StorageFailed(str(target), str(error))
        except TallymanError as error:
            bench.journal.check()
            found = error
        return self._record(failed(bench.lineage, target, attempt, found))

    def _deadline(self, assignment: Assignment) -> Deadline:
        policy = self._policy(assignment.target)
        limit = policy.timeout_s if policy else None
        tag = attempt_tag(assignment)
        return Deadline(limit, self.bench.definitions.interrupt(tag))

    def _work(self, assignment: Assignment, deadline: Deadline) -> TargetWork:
        bench = self.bench
        hooks = JournalHooks(bench, assignment, deadline)
        return TargetWork(assignment, bench.definitions, bench.folder, bench.lineage, hooks)

    # ---- overridden by a replay -----------------------------------------------------------

    def inputs(self, work: TargetWork) -> TargetInputs:
        return work.inputs(self.bench.pins.files)

    def adapted(self, work: Work) -> Work:
        return work

    def before_record(self, work: Work) -> None:
        """Hook: called when there is a result, before it is recorded in the registry."""

    # ---- making ----------------------------------------------------------------------------

    def _make(self, work: TargetWork, inputs: TargetInputs, deadline: Deadline) -> TargetOutcome:
        bench, attempt = self.bench, work.assignment.attempt
        described = self.adapted(work.started(inputs))
        try:
            with deadline:
                making = work.make(described, inputs)
            bench.journal.check()  # files of a run that was canceled meanwhile must not appear
        except RunTaken:
            bench.folder.drop(work.name, attempt)
            raise
        bench.folder.put(work.name, attempt)
        faults.reach(Point.FILES_PUT)
        if bench.watch.stop.is_set() and not making.result.status.good:
            making = _stopped(making, RunCanceled(bench.identity.run_id))
        elif deadline.passed and not making.result.status.good:
            why = TargetTimeout(str(described.target), attempt, deadline.limit_s or 0)
            making = _stopped(making, why)
        folders = replace(described.folders, result=bench.folder.path / work.name)
        placed = replace(described, folders=folders)
        if making.digest is not None:
            self.before_record(placed)
        return self._record(work.outcome(placed, making, inputs.pins))

    def _record(self, outcome: TargetOutcome) -> TargetOutcome:
        self.bench.journal.record(outcome)
        self.bench.lineage.recorded(list(outcome.events))
        if outcome.made is not None:
            faults.reach(Point.ASSET_RECORDED)
        return outcome


def _stopped(making: Making, why: TallymanError) -> Making:
    """Replace the error that Spark raised because it was interrupted."""
    status = Status.CANCELED if isinstance(why, RunCanceled) else Status.FAILED
    result = making.result.with_status(status, error=why.facts())
    return make.Making(result, timings=making.timings, error=why)
