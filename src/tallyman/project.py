"""A project from Python: open it, run it, ask it. The command line is a thin layer over this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from pyspark.sql import DataFrame

from tallyman.control import apply, approve, begin, define, plan, upkeep
from tallyman.control.again import Again
from tallyman.control.chain import Chain, check_chain
from tallyman.control.check_inputs import Bound, Checked
from tallyman.control.definitions import Definitions
from tallyman.control.inputs import Pins
from tallyman.control.lineage import outbox, send
from tallyman.control.options import Options
from tallyman.control.past import Past
from tallyman.control.rejections import Chosen, Rejections
from tallyman.control.reproduce import Reproduction, Teller, pinned_spark
from tallyman.control.reproducible import Reproducible
from tallyman.control.run import Execution, Listener
from tallyman.control.sealed import look, witness
from tallyman.control.verify import Case, Verdict, verify
from tallyman.control.where import Onward
from tallyman.control.why import Asked, Walk
from tallyman.data import Data
from tallyman.domain.approval import Decision
from tallyman.domain.change_plan import ChangePlan
from tallyman.domain.commit import Commit
from tallyman.domain.fate import Evidence
from tallyman.domain.lineage import Granularity, Reached
from tallyman.domain.materialization import Materialization, RunRecord
from tallyman.domain.reproduction import Reproduced
from tallyman.domain.run import RunIdentity, RunResult, Status
from tallyman.domain.selection import find_asset, named, select
from tallyman.domain.target import Target
from tallyman.domain.threshold import Thresholds
from tallyman.domain.walk import Where, Why
from tallyman.engine.runs import Run, find_folder
from tallyman.errors import NotFound, UsageError
from tallyman.query.compare import Comparison, Side, compare
from tallyman.query.diff import told_difference
from tallyman.query.report import Known, Report, report
from tallyman.query.trace import Trace
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.lineage import Lineage
from tallyman.registry.materializations import Materializations
from tallyman.registry.pipelines import Pipelines
from tallyman.registry.runs import Runs
from tallyman.registry.seals import Seals
from tallyman.settings import Settings

MOST_JOBS = 32


class Project(Data):
    """`Project.open("path").run()`; Spark and the database start when they are first needed."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._checked: dict[tuple[str, ...], define.Definition] = {}

    # ---- running --------------------------------------------------------------------------

    def run(  # noqa: PLR0913  the options of `tallyman run`
        self,
        selection: str | Sequence[str] = (),
        *,
        partition: str | Sequence[str] | None = None,
        force: bool = False,
        jobs: int = 1,
        evidence: str | None = None,
        run_id: str | None = None,
        thresholds: Thresholds | str | Mapping[str, object] | None = None,
        go_on: bool = True,
        good_partitions: bool = False,
        listen: Listener = lambda *_: None,
    ) -> RunResult:
        """Run the selected assets, all when none is named; what is unchanged is not run again."""
        if evidence is not None and evidence not in tuple(Evidence):
            raise UsageError(f"evidence is 'keys' or 'digest', not {evidence!r}")
        _check_jobs(jobs)
        # What can be wrong with the call itself is found before Spark starts.
        identity = RunIdentity.of(run_id, now=datetime.now(UTC))
        terms = (selection,) if isinstance(selection, str) else tuple(selection)
        options = Options(
            selection=terms,
            evidence=Evidence(evidence) if evidence else None,
            thresholds=None if thresholds is None else Thresholds.of(thresholds),
            jobs=jobs,
            go_on=go_on,
            good_partitions=good_partitions,
        )
        chosen = self.select(terms, options)
        forced = frozenset(named(self.pipeline, terms) & set(chosen)) if force else frozenset[str]()
        wanted = [partition] if isinstance(partition, str) else partition
        asked = begin.Begun(
            actor=self.settings.actor,
            identity=identity,
            targets=begin.targets_of(self.pipeline, chosen, wanted),
            options=options.with_force(forced),
        )
        return self._execute(begin.begin(asked, self._definitions(chosen, options), listen))

    def backfill(  # noqa: PLR0913
        self,
        selection: str | Sequence[str] = (),
        *,
        first: str | None = None,
        last: str | None = None,
        jobs: int = 1,
        on_error: str = "continue",
        force: bool = False,
        listen: Listener = lambda *_: None,
    ) -> tuple[RunResult, dict[str, int]]:
        """Every partition from `first` to `last`; how many succeeded, failed, were skipped."""
        if on_error not in ("continue", "halt"):
            raise UsageError(f"on_error is continue or halt, not {on_error!r}")
        terms = (selection,) if isinstance(selection, str) else tuple(selection)
        chosen = self.select(terms, Options())
        declared = [p for name in chosen if (p := self.pipeline.assets[name].partitioned_by)]
        if not declared:
            raise UsageError(f"backfill: none of {', '.join(chosen)} is partitioned")
        keys = declared[0].keys(first, last)
        result = self.run(
            terms,
            partition=keys,
            force=force,
            jobs=jobs,
            go_on=on_error == "continue",
            good_partitions=on_error == "continue",
            listen=listen,
        )
        return result, result.by_partition()

    def resume(
        self, run: str, *, jobs: int | None = None, listen: Listener = lambda *_: None
    ) -> RunResult:
        """Go on with a run that did not finish: what succeeded is not done again."""
        if jobs is not None:
            _check_jobs(jobs)
        record = self.find_run(run)
        options = begin.options_in(record.params, jobs)
        if record.status is Status.SUCCESS:
            return self.result_of(record)
        assets = [str(name) for name in record.params.get("assets", ())]
        for name in assets:
            find_asset(self.pipeline, name)
        definitions = self._definitions(assets, options)
        execution = begin.resume(record, self.settings.actor, definitions, options)
        execution.listen = listen
        return self._execute(execution)

    def _execute(self, execution: Execution) -> RunResult:
        try:
            return execution.execute()
        except KeyboardInterrupt:
            execution.abandon()
            raise

    def _definitions(self, chosen: Sequence[str], options: Options) -> Definitions:
        return Definitions(
            settings=self.settings,
            pipeline=self.pipeline,
            database=self.database,
            spark=lambda: self.spark,
            chosen=tuple(chosen),
            known=self._checked,
            overriding_evidence=options.evidence,
            overriding_thresholds=options.thresholds,
        )

    def select(self, terms: Sequence[str], options: Options | None = None) -> list[str]:
        """Asset names in the order they run."""
        every = self._definitions(self.pipeline.order(), options or Options())
        return select(self.pipeline, terms, every.modified)

    def plan(self) -> ChangePlan:
        """What applying the pipeline as it is now would do. Kept, so that it can be applied."""
        found = plan.plan(self._definitions(self.pipeline.order(), Options()))
        self.database.durably(
            lambda tx: Pipelines(tx).keep(
                UUID(found.id), self.settings.name, self.settings.actor, found.to_json()
            )
        )
        return found

    def apply(
        self, wanted: str = "latest", *, jobs: int = 1, listen: Listener = lambda *_: None
    ) -> tuple[ChangePlan, RunResult | None, Commit | None]:
        """Build aside what the plan says, then cut over to all of it in one commit."""
        _check_jobs(jobs)
        settings = self.settings
        found = self.database.durably(lambda tx: apply.load(tx, wanted, settings.name))
        options = Options(jobs=jobs, plan=found.to_json())
        targets = apply.targets(found)
        chosen = list(dict.fromkeys(target.asset for target in targets))
        definitions = self._definitions(chosen, options)
        self.database.durably(lambda tx: apply.check(tx, found, definitions))
        if targets:
            identity = RunIdentity.of(None, now=datetime.now(UTC))
            asked = begin.Begun(settings.actor, identity, targets, options)
            result = self._execute(begin.begin(asked, definitions, listen))
            return found, result, result.commit
        asking = apply.asking(found, settings.name, settings.actor)

        def work(tx: Transaction) -> Commit | None:
            Pipelines(tx).add(settings.name, found.pipeline_to, definitions.description())
            return apply.publish_plan(tx, self.warehouse, asking, found)

        return found, None, self.database.durably(work)

    def cancel(self, run: str, *, timeout_s: float = 30) -> Status:
        """Ask the run's process to stop; when it does not in time, take the run from it."""
        record = self.find_run(run)
        return begin.cancel(self.database, self.settings, record, timeout_s)

    def decide(
        self,
        run: str,
        asset: str,
        *,
        approved: bool,
        partition: str | None = None,
        reason: str | None = None,
    ) -> RunRecord:
        """Approve or reject a result that waits."""
        return approve.decide(
            self.database,
            self.settings,
            self.warehouse,
            self.find_run(run),
            self.target(asset, partition),
            Decision(approved=approved, actor=self.settings.actor, reason=reason),
        )

    # ---- asking ---------------------------------------------------------------------------

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
        with Walk.begun(self._past(), Asked(row, limit, keys)) as walk:
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
        with Onward.begun(self._past(), Asked(row, limit)) as walk:
            return walk.where(source, only)

    def _past(self) -> Past:
        settings = self.settings
        return Past(self.pipeline, self.database, settings, self.warehouse, lambda: self.spark)

    def read(
        self, name: str, *, partition: str | None = None, version: int | None = None
    ) -> DataFrame:
        """A version of a dataset, the current one unless said, as Spark sees it."""
        if partition is not None and name in self.pipeline.assets:
            partition = self.target(name, partition).partition
        return super().read(name, partition=partition, version=version)

    def target(self, asset: str, partition: str | None = None) -> Target:
        """From what a person writes; the partition may be left out."""
        declared = find_asset(self.pipeline, asset).partitioned_by
        if partition is not None and declared is None:
            raise UsageError(f"{asset} is not partitioned")
        return Target(asset, declared.parse(partition) if declared and partition else None)

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

    def folder(self, run: str) -> Run:
        """The run's files; also of a run that was copied here and that the registry never saw."""
        place, record = self._place(run)
        return Run.open(place, self._reused(record))

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

    def verify(self, run: str, *, exact: bool = False) -> Verdict:
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
        return verify(case, self.again)

    def chain(self, head: str | None = None) -> Chain:
        """Every seal of the project, from the first: does each name the one before it?"""
        self._upkeep()
        return check_chain(self.database, self.settings, head)

    def trace(self, run: str) -> Trace:
        """What a finished run changed, row by row and step by step; without Spark."""
        return Trace(self.folder(run))

    def report(self, run: str) -> Report:
        """All that can be told of a run; also of one that was copied here."""
        try:
            record = self.find_run(run)
        except NotFound:
            return report(self.folder(run), None)
        return report(self.folder_of(record), self.known(record))

    def compare(self, a: str, b: str) -> Comparison:
        """What differs between two runs: config, code, environment, inputs, ledgers."""
        return compare(self._side(a), self._side(b))

    def _side(self, run: str) -> Side:
        folder = self.folder(run)
        try:
            return Side(folder, self.known(self.find_run(folder.run_id)))
        except NotFound:
            return Side(folder, None)

    def known(self, run: RunRecord) -> Known:
        """What the registry holds of it, for its report."""
        seals = self.database.durably(lambda tx: Seals(tx).of_run(run.id))
        return Known(
            record=run,
            result=self.result_of(run),
            rows=self.materializations(run),
            seal=seals[0]["body"] if seals else None,
        )

    def folder_of(self, run: RunRecord) -> Run | None:
        """None when it was taken away, or the run ended before it had one."""
        try:
            return self.folder(run.name)
        except NotFound:
            return None

    def result_of(self, run: RunRecord) -> RunResult:
        return upkeep.result_of(self.database, run)

    def materializations(self, run: RunRecord) -> list[Materialization]:
        return self.database.durably(lambda tx: Materializations(tx).of_run(run.id))

    def latest(self) -> list[Materialization]:
        """The newest state of every asset and partition."""
        self._upkeep()
        return self.database.durably(
            lambda tx: Materializations(tx).latest_of_each(self.settings.name)
        )

    def again(self, run: Run) -> Callable[[Target, Path], Again]:
        """Opens targets of a past run for a second look."""
        pins = Pins(self.pipeline, self.database, self.settings)
        return lambda target, place: Again(target, place, run.manifest, pins, lambda: self.spark)

    def check_inputs(self, run: str) -> Checked:
        """Are config, code and inputs what the run was bound to? The first that is not."""
        return self._bound(run).check()

    def _bound(self, run: str) -> Bound:
        record = self.find_run(run)
        options = begin.options_in(record.params, None)
        assets = [n for n in record.params.get("assets", ()) if n in self.pipeline.assets]
        folder = Run.open(self.settings.home / record.folder)
        return Bound(record, folder, self._definitions(assets, options))

    def reproduce(
        self,
        run: str,
        *,
        spark_conf: Mapping[str, str] | None = None,
        keep: bool = False,
        tell: Teller = lambda *_: None,
    ) -> Reproduced:
        """Make a run again from its pinned inputs, aside, and compare; nothing is published."""
        bound = self._bound(run)
        conf = pinned_spark(bound.config.get("spark", {}), self.settings.spark, spark_conf or {})
        # Spark is not up yet: it starts with the settings of the run.
        self.settings = replace(self.settings, spark=conf)
        definitions = self._definitions(bound.definitions.chosen, Options())
        checked = Reproducible(bound, definitions)
        jobs = int(bound.record.params.get("jobs", 1))
        return Reproduction(checked, told_difference, tell, jobs, keep).reproduce()

    @property
    def rejections(self) -> Rejections:
        """List, replay or discard what runs rejected; `chosen` says which."""
        return Rejections(self.settings, self.database, self._definitions)

    def chosen(self, run: str, *, asset: str | None = None, where: str | None = None) -> Chosen:
        """Rejections of a run, also of one that was copied here and the registry never saw."""
        folder = self.folder(run)
        try:
            record = self.find_run(folder.run_id)
        except NotFound:
            record = None
        return Chosen(run=folder, record=record, asset=asset, where=where)

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

    def _key_of(self, name: str, partition: str | None) -> str | None:
        """Of an asset, or of a source by the partitions of an asset that reads it."""
        if name in self.pipeline.assets:
            return self.target(name, partition).partition
        for asset in self.pipeline.assets.values():
            if partition is not None and name in asset.inputs and asset.partitioned_by:
                return asset.partitioned_by.parse(partition)
        return partition

    def invalidate(self, asset: str, *, partition: str | None = None, cascade: bool = False) -> int:
        """The result no longer counts: the next run makes it anew. How many results it were."""
        target = self.target(asset, partition)

        def work(tx: Transaction) -> int:
            hit = [(target.asset, target.partition)]
            if cascade:
                below = Lineage(tx).down(target.asset, target.partition)
                hit += [(reached.asset, reached.partition) for reached in below]
            count = sum(Materializations(tx).invalidate(*one) for one in hit)
            details = {"count": count, "cascade": cascade}
            Audit(tx).add("asset.invalidated", self.settings.actor, str(target), details=details)
            return count

        return self.database.durably(work)


def _check_jobs(jobs: int) -> None:
    if not 1 <= jobs <= MOST_JOBS:
        raise UsageError(f"jobs is a number from 1 to {MOST_JOBS}, not {jobs}")
