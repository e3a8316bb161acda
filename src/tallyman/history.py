"""A project's past: its runs, what they left, whether it still holds, and what is behind rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame

from tallyman.control.bind.inputs import Pins
from tallyman.control.bind.vouch import vouched
from tallyman.control.openlineage import outbox, send
from tallyman.control.rejections.rejections import Chosen
from tallyman.control.run import upkeep
from tallyman.control.seal.chain import Chain, check_chain
from tallyman.control.seal.check import look, witness
from tallyman.control.verify.reopen import Again
from tallyman.control.verify.verify import Case, Verification, verify
from tallyman.data import Data
from tallyman.domain.definition.selection import find_asset
from tallyman.domain.definition.target import Target
from tallyman.domain.history.lineage import Granularity, Reached
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.run import RunResult, Status
from tallyman.domain.history.walk import Where, Why
from tallyman.engine.files.past_run import Run, find_folder
from tallyman.errors import NotFound, UsageError
from tallyman.query.diff.compare import RunComparison, RunSide, compare
from tallyman.query.report.run import KnownRun, Report, report
from tallyman.query.trace.asset import Trace
from tallyman.query.walk.results import Past
from tallyman.query.walk.where import Onward
from tallyman.query.walk.why import RowQuestion, Walk
from tallyman.registry.database import Transaction
from tallyman.registry.run.lineage import Lineage
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs
from tallyman.registry.seals import Seals


class History(Data):
    """What can be asked; nothing here makes anything."""

    # ---- runs ------------------------------------------------------------------------------

    def target(self, asset: str, partition: str | None = None) -> Target:
        """From what a person writes; the partition may be left out."""
        declared = find_asset(self.pipeline, asset).partitioned_by
        if partition is not None and declared is None:
            raise UsageError(f"{asset} is not partitioned")
        return Target(asset, declared.parse(partition) if declared and partition else None)

    def read(
        self, name: str, *, partition: str | None = None, version: int | None = None
    ) -> DataFrame:
        """A version of a dataset, the current one unless said, as Spark sees it."""
        if partition is not None and name in self.pipeline.assets:
            partition = self.target(name, partition).partition
        return super().read(name, partition=partition, version=version)

    def _upkeep(self) -> None:
        upkeep.upkeep(self.database, self.settings)

    def find_run(self, run: str) -> RunRecord:
        """By name, unique prefix, folder, or `latest`; as it is now, not as it was left."""
        self._upkeep()
        return self.database.durably(lambda tx: Runs(tx).get(run, self.settings.name))

    def runs(self, *, limit: int = 20) -> list[RunRecord]:
        """Newest first."""
        self._upkeep()
        return self.database.durably(lambda tx: Runs(tx).list(self.settings.name, limit=limit))

    def latest(self) -> list[Materialization]:
        """The newest state of every asset and partition."""
        self._upkeep()
        return self.database.durably(
            lambda tx: Materializations(tx).latest_of_each(self.settings.name)
        )

    def result_of(self, run: RunRecord) -> RunResult:
        return upkeep.result_of(self.database, run)

    def materializations(self, run: RunRecord) -> list[Materialization]:
        return self.database.durably(lambda tx: Materializations(tx).of_run(run.id))

    def folder(self, run: str) -> Run:
        """The run's files; also of a run that was copied here and that the registry never saw."""
        place, record = self._place(run)
        known = self.database.durably(lambda tx: vouched(tx, self.settings, record, place))
        return Run.open(place, self._reused(record), known)

    def folder_of(self, run: RunRecord) -> Run | None:
        """None when it was taken away, or the run ended before it had one."""
        try:
            return self.folder(run.name)
        except NotFound:
            return None

    def _place(self, run: str) -> tuple[Path, RunRecord | None]:
        """The run's folder, whatever is in it."""
        record: RunRecord | None = None
        try:
            record = self.find_run(run)
            place = self.settings.home / record.folder
            if place.is_dir():
                return place, record
            raise NotFound("folder of the run", place.name)
        except NotFound:
            copied = find_folder(self.settings.runs_folder, record.name if record else run)
            if copied is None:
                raise
            return copied, record

    def _reused(self, run: RunRecord | None) -> dict[Target, Path]:
        rows = self.materializations(run) if run else []
        return {
            row.target: (self.settings.home / str(row.location)).parent
            for row in rows
            if row.status is Status.SKIPPED
        }

    def chosen(self, run: str, *, asset: str | None = None, where: str | None = None) -> Chosen:
        """Rejections of a run, also of one that was copied here and the registry never saw."""
        folder = self.folder(run)
        try:
            record = self.find_run(folder.run_id)
        except NotFound:
            record = None
        return Chosen(run=folder, record=record, asset=asset, where=where)

    # ---- checking ---------------------------------------------------------------------------

    def verify(self, run: str, *, exact: bool = False) -> Verification:
        """A run again from its files: is it balanced, and is every byte what was sealed?"""
        place, record = self._place(run)
        known = self.database.durably(lambda tx: witness(tx, self.settings, record))
        case = Case(
            folder=place,
            name=record.name if record else place.name,
            sealed=look(place, known),
            reused=self._reused(record),
            exact=exact,
        )
        return verify(case, self.again, lambda: self.spark)

    def again(self, run: Run) -> Callable[[Target, Path], Again]:
        """Opens targets of a past run for a second look."""
        pins = Pins(self.pipeline, self.database, self.settings)
        return lambda target, place: Again(target, place, run.manifest, pins, lambda: self.spark)

    def chain(self, head: str | None = None) -> Chain:
        """Every seal of the project, from the first: does each name the one before it?"""
        self._upkeep()
        return check_chain(self.database, self.settings, head)

    def report(self, run: str) -> Report:
        """Report everything that is known about a run, also about one that was copied here."""
        try:
            record = self.find_run(run)
        except NotFound:
            return report(self.folder(run), None, self.settings.redacted)
        return report(self.folder_of(record), self.known(record), self.settings.redacted)

    def known(self, run: RunRecord) -> KnownRun:
        """What the registry holds of it, for its report."""
        seals = self.database.durably(lambda tx: Seals(tx).of_run(run.id))
        return KnownRun(
            record=run,
            result=self.result_of(run),
            rows=self.materializations(run),
            seal=seals[0]["body"] if seals else None,
        )

    def compare(self, a: str, b: str) -> RunComparison:
        """What differs between two runs: config, code, environment, inputs, ledgers."""
        return compare(self._side(a), self._side(b))

    def _side(self, run: str) -> RunSide:
        folder = self.folder(run)
        try:
            return RunSide(folder, self.known(self.find_run(folder.run_id)))
        except NotFound:
            return RunSide(folder, None)

    # ---- rows -------------------------------------------------------------------------------

    def trace(self, run: str) -> Trace:
        """What a finished run changed, row by row and step by step; without Spark."""
        return Trace(self.folder(run))

    def why(
        self,
        dataset: str,
        row: Mapping[str, str],
        *,
        version: int | None = None,
        partition: str | None = None,
        limit: int | None = 20,
        keys: bool = False,
    ) -> Why:
        """What rows of a dataset were made from, back to the records and files of sources."""
        found = self.resolve(dataset, version)
        asset, registered, _ = found.dataset.producer.partition("/")
        if registered:
            raise UsageError(
                f"{dataset} was registered by an output step of {asset}: "
                f"ask `tallyman why {asset} …`, or `tallyman trace RUN --key …`"
            )
        fragments = [f for f in found.fragments if f.files]
        if partition is not None:
            wanted = self.target(found.dataset.producer, partition).partition
            fragments = [f for f in fragments if f.partition == wanted]
        if not fragments:
            raise NotFound(f"row in v{found.version.ordinal} of", str(Target(dataset, partition)))
        with Walk.begun(self._past(), RowQuestion(row, limit, keys)) as walk:
            return walk.why(found, fragments)

    def where(
        self,
        source: str,
        row: Mapping[str, str],
        *,
        run: str | None = None,
        limit: int | None = 20,
    ) -> Where:
        """What became of records of a source: everything they reached, or where they ended."""
        only = None if run is None else self.find_run(run)
        with Onward.begun(self._past(), RowQuestion(row, limit)) as walk:
            return walk.where(source, only)

    def _past(self) -> Past:
        settings = self.settings
        self._mode.enter()  # plans of digests are made before Spark is up
        return Past(self.pipeline, self.database, settings, self.warehouse, lambda: self.spark)

    # ---- lineage ----------------------------------------------------------------------------

    def lineage(
        self,
        direction: str,
        asset: str,
        *,
        partition: str | None = None,
        granularity: Granularity = "partition",
    ) -> list[Reached]:
        """`up`: what it was made from; `down` and `impact`: what was made from it."""
        key = self._key_of(asset, partition)

        def work(tx: Transaction) -> list[Reached]:
            lineage = Lineage(tx)
            if direction == "up":
                return lineage.up(asset, key)
            if direction == "down":
                return lineage.down(asset, key)
            return lineage.impact(asset, key, granularity=granularity)

        return self.database.durably(work)

    def _key_of(self, name: str, partition: str | None) -> str | None:
        """Of an asset, or of a source by the partitions of an asset that reads it."""
        if name in self.pipeline.assets:
            return self.target(name, partition).partition
        for asset in self.pipeline.assets.values():
            if partition is not None and name in asset.inputs and asset.partitioned_by:
                return asset.partitioned_by.parse(partition)
        return partition

    def lineage_state(self) -> outbox.LineageState:
        """Where OpenLineage events go, and those that are not there yet."""
        return outbox.state(self._outbox())

    def flush_lineage(
        self, *, refused: bool = False, listen: Callable[[int], None] = lambda _: None
    ) -> send.Flushed:
        """Send every event that waits, and on demand those that were refused before."""
        return send.flush(self._outbox(), refused=refused, listen=listen)

    def _outbox(self) -> outbox.Outbox:
        settings = self.settings
        return outbox.Outbox.of(self.database, settings.name, settings.home)
