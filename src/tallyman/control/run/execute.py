"""A run: every target in order, each proved before its output counts, or reused if unchanged."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tallyman import faults
from tallyman.control.bind.inputs import Pin, Pins
from tallyman.control.bind.manifest import bind, config_file, manifest_of
from tallyman.control.bind.options import Options
from tallyman.control.bind.read_facts import inputs_read
from tallyman.control.openlineage.run import RunEvents
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.redaction import redaction
from tallyman.control.run import finish, upkeep
from tallyman.control.run.approve import conclude
from tallyman.control.run.exports import export, made_in
from tallyman.control.run.journal import Journal
from tallyman.control.run.make import Making, Order, make
from tallyman.control.run.prepare_fragments import PreparedFragments
from tallyman.control.run.schedule import in_order
from tallyman.control.run.timings import Stopwatch
from tallyman.control.run.unchanged import Unchanged, consumed
from tallyman.control.run.watch import Watch
from tallyman.control.seal.seal import place, seal_of
from tallyman.domain.definition.target import Target, dependencies, folder_of
from tallyman.domain.history.materialization import Made, Materialization
from tallyman.domain.history.run import AssetResult, RunIdentity, RunResult, Status
from tallyman.domain.version.dataset import Dataset, Kind
from tallyman.engine.files.hashing import hasher_for
from tallyman.engine.files.run_folder import CONFIG, MANIFEST, RunFolder
from tallyman.engine.files.sizes import sizes
from tallyman.errors import (
    Conflict,
    ExportFailed,
    RunCanceled,
    RunTaken,
    StorageFailed,
    TallymanError,
)
from tallyman.faults import Point
from tallyman.registry.version.datasets import Datasets
from tallyman.settings import Settings

Listener = Callable[[str, str, AssetResult | None], None]
"""Called with a target, what is happening to it, and its result once there is one."""


@dataclass
class Execution:
    settings: Settings
    journal: Journal
    identity: RunIdentity
    definitions: Definitions
    options: Options
    targets: list[Target]
    listen: Listener = lambda *_: None
    _folder: RunFolder = field(init=False)
    _pins: Pins = field(init=False)
    _fragments: PreparedFragments = field(init=False)
    _watch: Watch = field(init=False)
    _lineage: RunEvents = field(init=False)
    _listening: threading.Lock = field(default_factory=threading.Lock)

    def execute(self) -> RunResult:
        """The run is registered and held by this process."""
        faults.reach(Point.RUN_REGISTERED)
        pipeline = self.definitions.pipeline
        run = self.journal.run
        pinned = {UUID(dataset): ordinal for dataset, ordinal in run.pins.items()}
        hasher = hasher_for(self.settings.master, self.definitions.spark)
        database, settings = self.journal.database, self.settings
        self._pins = Pins(pipeline, database, settings, run.id, pinned, hasher)
        self._fragments = PreparedFragments(
            self.journal, self._pins.warehouse, self._pins, self._datasets()
        )
        self._folder = RunFolder.open(self.settings.home / run.folder)
        finish.set_aside(self._folder)  # of an earlier end: this run is at work again
        finish.set_aside(self._folder, finish.ENDS)
        self._describe()
        self._lineage = RunEvents(
            self.definitions, self.journal.database, self.journal.run, self._folder
        )
        faults.reach(Point.FOLDER_MADE)
        notes: list[str] = []
        try:
            events = self._lineage.begun(self.targets)
            self.journal.emit(events)
            self._lineage.recorded(events)
            result = self._work()
        finally:
            notes = self._lineage.close()
        return result.with_notes(notes)

    def _work(self) -> RunResult:
        pipeline, run = self.definitions.pipeline, self.journal.run
        self._watch = Watch(self.journal, self.definitions.interrupt(str(run.id)))
        with self._watch:
            rows = self.journal.rows()
            needs = dependencies(pipeline, self.targets)
            done = {target for target, row in rows.items() if row.status.good}
            left = {t: before - done for t, before in needs.items() if t not in done}
            # What waits for a decision is made; what needs it waits too.
            waiting = {t for t, row in rows.items() if row.status is Status.WAITING}
            todo = {t: before for t, before in left.items() if t not in waiting}
            attempts = {target: row.attempt for target, row in rows.items()}
            in_order(
                todo,
                lambda target: self._target(target, attempts[target] + 1),
                self.options.jobs,
                go_on=self.options.go_on,
            )
            return self._close()

    def abandon(self) -> None:
        """The person at the terminal stops it: nothing of it is at work any more."""
        with contextlib.suppress(Exception):  # Spark may have been stopped by the same signal
            self.definitions.interrupt(str(self.journal.run.id))()
        with contextlib.suppress(TallymanError):
            self.journal.abandon(self.settings.home)

    def _datasets(self) -> dict[str, Dataset]:
        assets = sorted({target.asset for target in self.targets})
        found = self.journal.database.durably(
            lambda tx: Datasets(tx).of_producers(self.settings.name, assets, Kind.ASSET)
        )
        return {dataset.producer: dataset for dataset in found}

    def _close(self) -> RunResult:
        rows = self._in_order(self.journal.rows())
        result = finish.conclude(
            self.identity, rows, self.journal.run.folder, canceled=self._watch.stop.is_set()
        )
        trouble: TallymanError | None = None
        watch = Stopwatch("publishing")
        try:
            if result.status is not Status.CANCELED:
                result = result.with_commit(self.journal.publish(self._pins.warehouse))
                faults.reach(Point.COMMITTED)
                if result.commit is not None:
                    self._export()
        except RunTaken:
            raise
        except (Conflict, ExportFailed) as found:
            trouble = found
        except OSError as error:
            trouble = StorageFailed(f"publishing {self.identity.run_id}", str(error))
        if trouble is not None:
            result = result.with_error(trouble.facts())
        finish.write(self._folder, self.identity, result, rows, watch.stop())
        events = self._lineage.closed(result, self.targets)
        sealed = seal_of(self.settings.home, self.journal.run, result, rows)
        self.journal.finish(result.status, sealed, events)
        faults.reach(Point.SEALED)
        place(self.journal.database, self.settings.home, self.settings.name)
        if trouble is not None:
            raise trouble
        return self._decided(result) if result.status is Status.WAITING else result

    def _decided(self, result: RunResult) -> RunResult:
        """What it waits for may have been decided while it was still at work."""
        run, actor = self.journal.run, self.journal.actor
        database, warehouse = self.journal.database, self._pins.warehouse
        concluded = database.durably(lambda tx: conclude(tx, warehouse, run.id, actor))
        if concluded.status is result.status:
            return result
        upkeep.rewrite_report(database, self.settings.home, concluded, self.journal.sign)
        if concluded.status is Status.SUCCESS:
            self._export()
        return upkeep.result_of(database, concluded)

    def _export(self) -> None:
        home, run = self.settings.home, self.journal.run
        export(home, run.name, made_in(self.journal.database, home, run))

    def _in_order(self, rows: Mapping[Target, Materialization]) -> list[Materialization]:
        return [rows[target] for target in self.targets]

    # ---- one target ---------------------------------------------------------------------

    def _target(self, target: Target, attempt: int) -> bool:
        """Whether what needs it can go on."""
        if self._watch.stop.is_set():
            return False
        self._report(target, "opening", None)
        try:
            pins = self._pins_of(target)
            reused = self._unchanged(target, pins)
            if reused is not None:
                result = self._reuse(target, reused)
            else:
                result = self._make(target, attempt, pins)
        except RunTaken:
            raise
        except OSError as error:
            # Whoever took the run over clears away what this process was writing.
            self.journal.check()
            result = self._failed(target, attempt, StorageFailed(str(target), str(error)))
        except TallymanError as error:
            self.journal.check()
            result = self._failed(target, attempt, error)
        self._report(target, "done", result)
        return result.status.good

    def _pins_of(self, target: Target) -> dict[str, Pin]:
        return self._pins.of(target)

    def _failed(self, target: Target, attempt: int, error: TallymanError) -> AssetResult:
        result = AssetResult(
            name=target.asset,
            partition=target.partition,
            attempt=attempt,
            status=Status.FAILED,
            error=error.facts(),
        )
        events = self._lineage.failed(target, result)
        self.journal.failed(target, result, result.to_json(), events)
        self._lineage.recorded(events)
        return result

    def _unchanged(self, target: Target, pins: Mapping[str, Pin]) -> Materialization | None:
        if target.asset in self.options.force:
            return None
        dataset = self._fragments.datasets[target.asset]
        found = Unchanged(self.definitions, self._pins.warehouse, self.journal.run.pins)
        return found.result(target, dataset.id, pins)

    def _reuse(self, target: Target, last: Materialization) -> AssetResult:
        result = AssetResult(
            name=target.asset,
            partition=target.partition,
            status=Status.SKIPPED,
            rows_out=int(last.metadata.get("rows_out", 0)),
            unchanged_since=str(last.metadata.get("run", last.run_id)),
        )
        # Whoever publishes a result publishes what was registered beside it.
        beside = {"registered": last.metadata.get("registered", [])}
        self.journal.skipped(target, last, result.to_json() | beside)
        return result

    def _make(self, target: Target, attempt: int, pins: Mapping[str, Pin]) -> AssetResult:
        definition = self.definitions.checked()  # Spark starts here, if nothing needed it before
        meaning = self.definitions.hash(target.asset)
        events = self._lineage.started(target, attempt)
        self.journal.started(target, attempt, meaning, events)
        self._lineage.recorded(events)
        faults.reach(Point.ASSET_STARTED)
        asset = self.definitions.pipeline.assets[target.asset]
        name = folder_of(self.definitions.pipeline.assets, target)
        place, scratch = self._folder.begin(name, attempt)
        order = Order(
            target=target,
            attempt=attempt,
            run=self.identity,
            pins=pins,
            thresholds=self.definitions.thresholds(asset),
            evidence=self.definitions.evidence(asset),
            place=place,
            scratch=scratch,
            project=self.settings.home,
            progress=lambda phase: self._progress(target, phase),
            completed=lambda step: self.journal.step(target, step),
            tag=str(self.journal.run.id),
            redaction=redaction(self.settings, definition.plans.values()),
            canceled=self._watch.stop.is_set,
        )
        making = make(self.definitions.spark(), definition, self._adapted(order))
        self._folder.put(name, attempt)
        faults.reach(Point.FILES_PUT)
        if self._watch.stop.is_set() and not making.result.status.good:
            making = _canceled(making, self.identity)
        return self._record(target, making, pins, name)

    def _adapted(self, order: Order) -> Order:
        """A replay reads other records than those that stand in the inputs."""
        return order

    def _record(
        self, target: Target, making: Making, pins: Mapping[str, Pin], name: str
    ) -> AssetResult:
        metadata = making.metadata(self.identity) | {"bytes": sizes(self._folder.path / name)}
        if making.digest is None:
            events = self._lineage.ended(target, making.result, pins)
            self.journal.failed(target, making.result, metadata, events)
            self._lineage.recorded(events)
            return making.result
        asset = self.definitions.pipeline.assets[target.asset]
        asks = asset.approval if making.asks else None
        place, spark = self._folder.path / name, self.definitions.spark()
        watch = Stopwatch("staging")
        fragment, counts = self._fragments.prepare(spark, asset, target, place, making.digest)
        beside = self._fragments.registered(spark, asset, target, place)
        if beside:
            counts = counts | {"registered": [str(one.id) for one in beside]}
        counts |= {"inputs": inputs_read(pins, self.journal.run.pins, self.targets)}
        counts |= {"timings": [*map(dict, making.timings), *watch.stop()]}
        made = Made(
            consumed=tuple(consumed(pins)),
            digest=making.digest,
            location=f"{self.journal.run.folder}/{name}/output",
            fragment=fragment,
            metadata=metadata | counts,
            registered=beside,
        )
        result = making.result.with_status(Status.WAITING) if asks else making.result
        events = self._lineage.ended(target, result, pins)
        self.journal.succeeded(target, made, making.result, asks, events)
        self._lineage.recorded(events)
        faults.reach(Point.ASSET_RECORDED)
        return result

    # ---- reporting ------------------------------------------------------------------------

    def _progress(self, target: Target, phase: str) -> None:
        if self._watch.stop.is_set():
            raise RunCanceled(self.identity.run_id)
        self._report(target, phase, None)

    def _report(self, target: Target, phase: str, result: AssetResult | None) -> None:
        with self._listening:
            self.listen(str(target), phase, result)

    # ---- the files of the run -----------------------------------------------------------

    def _describe(self) -> None:
        """What the run is bound to, written once: a resume finds it there."""
        if (self._folder.path / MANIFEST).exists():
            return
        run, definitions = self.journal.run, self.definitions
        binding = bind(definitions, self.targets, run, self._pins)
        if not (self._folder.path / CONFIG).exists():
            self._folder.write(CONFIG, config_file(binding.config, run, self.settings.master))
        manifest = manifest_of(self.identity, run, definitions, self.targets, binding)
        self._folder.write(MANIFEST, manifest)


def _canceled(making: Making, run: RunIdentity) -> Making:
    error = RunCanceled(run.run_id).facts()
    result = making.result.with_status(Status.CANCELED, error=error)
    return Making(result, timings=making.timings)
