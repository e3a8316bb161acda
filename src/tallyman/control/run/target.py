"""Make one target of a run: reuse its last result if nothing changed, otherwise make it, and record
it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tallyman import faults
from tallyman.control.bind.inputs import Pin
from tallyman.control.bind.read_facts import inputs_read
from tallyman.control.conclude.exports import records_of, refuse_foreign_files
from tallyman.control.run.make import Maker, Making, work_on
from tallyman.control.run.progress import TargetProgress
from tallyman.control.run.target_inputs import TargetInputs
from tallyman.control.run.timings import Stopwatch
from tallyman.control.run.unchanged import Unchanged, consumed
from tallyman.control.run.workbench import Workbench
from tallyman.domain.history.materialization import Made, Materialization
from tallyman.domain.history.run import AssetResult, RunIdentity, Status
from tallyman.domain.pipeline.target import Target, folder_of
from tallyman.engine.asset.work import Folders, Work
from tallyman.engine.files.sizes import sizes
from tallyman.engine.source.door_memory import DoorMemory
from tallyman.errors import RunCanceled, RunTaken, StorageFailed, TallymanError
from tallyman.faults import Point


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
        try:
            inputs = self.inputs(target)
            reused = self.unchanged(target, inputs.pins)
            if reused is not None:
                result = self._reuse(target, reused)
            else:
                result = self._make(target, attempt, inputs)
        except RunTaken:
            raise
        except OSError as error:
            # The process that took the run over may have deleted the files that this one was
            # writing.
            self.bench.journal.check()
            result = self._failed(target, attempt, StorageFailed(str(target), str(error)))
        except TallymanError as error:
            self.bench.journal.check()
            result = self._failed(target, attempt, error)
        self.bench.terminal.show(target, "done", result)
        return result.status.good

    # ---- overridden by a replay -----------------------------------------------------------

    def inputs(self, target: Target) -> TargetInputs:
        doors = DoorMemory(self.bench.definitions.settings.state_folder / "doors")
        return TargetInputs(self.bench.pins.of(target), memory=doors)

    def unchanged(self, target: Target, pins: Mapping[str, Pin]) -> Materialization | None:
        """Return the last success if making the target would give the same result."""
        bench = self.bench
        if target.asset in bench.options.force:
            return None
        dataset = bench.fragments.datasets[target.asset]
        found = Unchanged(bench.definitions, bench.journal.run.pins)
        return found.result(target, dataset.id, pins)

    def adapted(self, work: Work) -> Work:
        return work

    def before_record(self, work: Work) -> None:
        """Hook: called when there is a result, before it is recorded in the registry."""

    # ---- failed or reused ------------------------------------------------------------------

    def _failed(self, target: Target, attempt: int, error: TallymanError) -> AssetResult:
        result = AssetResult(
            name=target.asset,
            partition=target.partition,
            attempt=attempt,
            status=Status.FAILED,
            error=error.facts(),
        )
        events = self.bench.lineage.failed(target, result)
        self.bench.journal.failed(target, result, result.to_json(), events)
        self.bench.lineage.recorded(events)
        return result

    def _reuse(self, target: Target, last: Materialization) -> AssetResult:
        result = AssetResult(
            name=target.asset,
            partition=target.partition,
            status=Status.SKIPPED,
            rows_out=int(last.metadata.get("rows_out", 0)),
            unchanged_since=str(last.metadata.get("run", last.run_id)),
        )
        # Publishing a result also publishes the datasets it registered.
        beside = {"registered": last.metadata.get("registered", [])}
        self.bench.journal.skipped(target, last, result.to_json() | beside)
        return result

    # ---- making ----------------------------------------------------------------------------

    def _make(self, target: Target, attempt: int, inputs: TargetInputs) -> AssetResult:
        bench, journal = self.bench, self.bench.journal
        definition = bench.definitions.checked()  # Spark starts here, if nothing needed it before
        meaning = bench.definitions.hash(target.asset)
        events = bench.lineage.started(target, attempt)
        journal.started(target, attempt, meaning, events)
        bench.lineage.recorded(events)
        faults.reach(Point.ASSET_STARTED)
        name = folder_of(bench.definitions.pipeline.assets, target)
        folders = Folders(*bench.folder.begin(name, attempt), bench.settings.home)
        work = work_on(bench.definitions, target, bench.identity, folders)
        work = self.adapted(replace(work, attempt=attempt, tag=str(journal.run.id)))
        refuse_foreign_files(records_of(bench.settings), work)
        observer = TargetProgress(target, journal, bench.watch, bench.terminal)
        making = Maker(bench.definitions.spark(), definition).make(work, inputs, observer)
        bench.folder.put(name, attempt)
        faults.reach(Point.FILES_PUT)
        if bench.watch.stop.is_set() and not making.result.status.good:
            making = _canceled(making, bench.identity)
        placed = replace(folders, result=bench.folder.path / name)
        return self._record(replace(work, folders=placed), making, inputs.pins)

    def _record(self, work: Work, making: Making, pins: Mapping[str, Pin]) -> AssetResult:
        bench, target = self.bench, work.target
        metadata = making.metadata(work.run) | {"bytes": sizes(work.folders.result)}
        if making.digest is None:
            events = bench.lineage.ended(target, making.result, pins)
            bench.journal.failed(target, making.result, metadata, events)
            bench.lineage.recorded(events)
            return making.result
        self.before_record(work)
        asks = work.asset.approval if making.asks else None
        made = self._prepared(work, making, metadata, pins)
        result = making.result.with_status(Status.WAITING) if asks else making.result
        events = bench.lineage.ended(target, result, pins)
        bench.journal.succeeded(target, made, making.result, asks, events)
        bench.lineage.recorded(events)
        faults.reach(Point.ASSET_RECORDED)
        return result

    def _prepared(
        self, work: Work, making: Making, metadata: Mapping[str, object], pins: Mapping[str, Pin]
    ) -> Made:
        """Take the output into the warehouse as a fragment that is not in any version yet."""
        assert making.digest is not None
        bench, run = self.bench, self.bench.journal.run
        spark, watch = bench.definitions.spark(), Stopwatch("staging")
        of = (spark, work.asset, work.target, work.folders.result)
        fragment, counts = bench.fragments.prepare(*of, making.digest)
        beside = bench.fragments.registered(*of)
        if beside:
            counts = counts | {"registered": [str(one.id) for one in beside]}
        counts |= {"inputs": inputs_read(pins, run.pins, bench.targets)}
        counts |= {"timings": [*map(dict, making.timings), *watch.stop()]}
        return Made(
            consumed=tuple(consumed(pins)),
            digest=making.digest,
            location=f"{run.folder}/{work.folders.result.relative_to(bench.folder.path)}/output",
            fragment=fragment,
            metadata={**metadata, **counts},
            registered=beside,
        )


def _canceled(making: Making, run: RunIdentity) -> Making:
    error = RunCanceled(run.run_id).facts()
    result = making.result.with_status(Status.CANCELED, error=error)
    return Making(result, timings=making.timings)
