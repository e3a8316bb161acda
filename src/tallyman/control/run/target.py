"""Make one target of a local run: assign it, make it or reuse its last result, and record it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tallyman import faults
from tallyman.control.run.progress import TargetProgress
from tallyman.control.run.workbench import Workbench
from tallyman.control.target.assign import Assigner
from tallyman.control.target.assignment import Assignment
from tallyman.control.target.make_target import Evaluated, TargetWork, failed
from tallyman.control.target.outcome import TargetOutcome
from tallyman.control.target.target_inputs import TargetInputs
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.run import AssetResult, RunIdentity, Status
from tallyman.domain.pipeline.target import Target, folder_of
from tallyman.domain.version.dataset import Fragment
from tallyman.engine.observer import Observer
from tallyman.engine.source.door_memory import DoorMemory
from tallyman.errors import RunCanceled, RunTaken, StorageFailed, TallymanError
from tallyman.faults import Point
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from tallyman.control.target import make
    from tallyman.control.target.make import Making
    from tallyman.engine.asset.work import Work
else:
    make = OnDemand("tallyman.control.target.make")


@dataclass(frozen=True, slots=True)
class JournalHooks:
    """Records in the registry how far the making of a target is."""

    bench: Workbench
    assignment: Assignment

    def started(self, definition: str, events: list[LineageEvent]) -> None:
        bench, target, attempt = self.bench, self.assignment.target, self.assignment.attempt
        bench.journal.started(target, attempt, definition, events)
        bench.lineage.recorded(events)
        bench.folder.set_aside(folder_of(bench.definitions.pipeline.assets, target), attempt - 1)

    def opened(self, fragment: Fragment) -> None:
        self.bench.journal.opened(fragment)

    @property
    def observer(self) -> Observer:
        bench = self.bench
        return TargetProgress(self.assignment.target, bench.journal, bench.watch, bench.terminal)


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
        result = self._result(target, attempt)
        self.bench.terminal.show(target, "done", result)
        return result.status.good

    def _result(self, target: Target, attempt: int) -> AssetResult:
        bench = self.bench
        try:
            assignment = self.assign(bench.assigner, target, attempt)
            work = self._work(assignment)
            inputs = self.inputs(assignment)
            outcome = work.reused(inputs.pins)
            if outcome is not None:
                bench.journal.record(outcome)
                return outcome.result
            return self._make(work, inputs)
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

    def _work(self, assignment: Assignment) -> TargetWork:
        bench = self.bench
        hooks = JournalHooks(bench, assignment)
        return TargetWork(assignment, bench.definitions, bench.folder, bench.lineage, hooks)

    # ---- overridden by a replay -----------------------------------------------------------

    def assign(self, assigner: Assigner, target: Target, attempt: int) -> Assignment:
        return assigner.assign(target, attempt)

    def inputs(self, assignment: Assignment) -> TargetInputs:
        settings = self.bench.definitions.settings
        doors = DoorMemory(settings.state_folder / "doors", settings.column_metrics)
        pins = self.bench.pins.files.of(assignment.target, assignment.inputs)
        return TargetInputs(pins, memory=doors)

    def adapted(self, work: Work) -> Work:
        return work

    def before_record(self, work: Work) -> None:
        """Hook: called when there is a result, before it is recorded in the registry."""

    # ---- making ----------------------------------------------------------------------------

    def _make(self, work: TargetWork, inputs: TargetInputs) -> AssetResult:
        bench, attempt = self.bench, work.assignment.attempt
        described = self.adapted(work.started(inputs))
        try:
            evaluated = work.make(described, inputs)
            bench.journal.check()  # files of a run that was canceled meanwhile must not appear
        except RunTaken:
            bench.folder.drop(work.name, attempt)
            raise
        bench.folder.put(work.name, attempt)
        faults.reach(Point.FILES_PUT)
        if bench.watch.stop.is_set() and not evaluated.making.result.status.good:
            evaluated = replace(evaluated, making=_canceled(evaluated.making, bench.identity))
        placed = replace(described.folders, result=bench.folder.path / work.name)
        evaluated = Evaluated(replace(described, folders=placed), evaluated.making, evaluated.pins)
        if evaluated.making.digest is not None:
            self.before_record(evaluated.work)
        return self._record(work.outcome(evaluated))

    def _record(self, outcome: TargetOutcome) -> AssetResult:
        self.bench.journal.record(outcome)
        self.bench.lineage.recorded(list(outcome.events))
        if outcome.made is not None:
            faults.reach(Point.ASSET_RECORDED)
        return outcome.result


def _canceled(making: Making, run: RunIdentity) -> Making:
    error = RunCanceled(run.run_id).facts()
    result = making.result.with_status(Status.CANCELED, error=error)
    return make.Making(result, timings=making.timings)
