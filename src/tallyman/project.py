"""A project from Python: open it, run it, ask it. The command line is a thin layer over this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from tallyman.control.bind.options import Options
from tallyman.control.pipeline import load
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.publish import apply, plan
from tallyman.control.rejections.rejections import Rejections
from tallyman.control.run import approve, begin
from tallyman.control.run.execute import Execution, Listener
from tallyman.control.verify.can_reproduce import Reproducible
from tallyman.control.verify.inputs import Bound, Checked
from tallyman.control.verify.reproduce import AgainListener, Reproduction, pinned_spark
from tallyman.domain.account.fate import Evidence
from tallyman.domain.definition.approval import Decision
from tallyman.domain.definition.selection import find_asset, named, select
from tallyman.domain.definition.threshold import Thresholds
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.reproduction import Reproduced
from tallyman.domain.history.run import RunIdentity, RunResult, Status
from tallyman.domain.version.change_plan import ChangePlan
from tallyman.domain.version.commit import Commit
from tallyman.engine.spark.lent_session import lent
from tallyman.engine.spark.session import is_up, settings_for
from tallyman.errors import UsageError
from tallyman.history import History
from tallyman.query.diff.diff import difference_facts
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.run.lineage import Lineage
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.pipelines import Pipelines
from tallyman.settings import Settings

MOST_JOBS = 32


class Project(History):
    """`Project.open("path").run()`; Spark and the database start when they are first needed."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._checked: dict[tuple[str, ...], load.Definition] = {}

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
        self._mode.enter()  # plans are made before Spark is up, and may hold columns
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

    # ---- again ----------------------------------------------------------------------------

    def check_inputs(self, run: str) -> Checked:
        """Are config, code and inputs what the run was bound to? The first that is not."""
        return self._bound(run).check()

    def _bound(self, run: str) -> Bound:
        record = self.find_run(run)
        options = begin.options_in(record.params, None)
        assets = [n for n in record.params.get("assets", ()) if n in self.pipeline.assets]
        return Bound(record, self._definitions(assets, options))

    def reproduce(
        self,
        run: str,
        *,
        spark_conf: Mapping[str, str] | None = None,
        keep: bool = False,
        listen: AgainListener = lambda *_: None,
    ) -> Reproduced:
        """Make a run again from its pinned inputs, aside, and compare; nothing is published."""
        bound = self._bound(run)
        conf = pinned_spark(bound.config.get("spark", {}), self.settings.spark, spark_conf or {})
        jobs = int(bound.record.params.get("jobs", 1))
        with self._spark_as(conf) as refused:
            checked = Reproducible(bound, self._definitions(bound.definitions.chosen, Options()))
            found = Reproduction(checked, difference_facts, listen, jobs, keep).reproduce()
        return replace(found, not_applied=tuple(refused))

    @contextmanager
    def _spark_as(self, conf: Mapping[str, str]) -> Iterator[list[str]]:
        """Settings of another run, and Spark with them; afterwards all is as it was. What a
        session that is up already cannot be given is returned."""
        own, checked = self.settings, self._checked
        usual, wanted = (settings_for(own.master, given) for given in (own.spark, conf))
        if usual == wanted:
            yield []
            return
        self._mode.enter()
        up = "_session" in self.__dict__ or is_up(own.master)
        session = self.spark if up else None
        self.settings = replace(own, spark=dict(conf))
        self._checked = dict[tuple[str, ...], load.Definition]()
        try:
            if session is not None:
                with lent(session, wanted, usual) as refused:
                    yield refused
            else:
                yield []
        finally:
            self.settings, self._checked = own, checked
            if session is None and (started := self.__dict__.pop("_session", None)):
                started.stop()
                # The JVM lives on, and gives what it was started with to every later session.
                self._unwanted |= wanted.keys() - usual.keys()

    @property
    def rejections(self) -> Rejections:
        """List, replay or discard what runs rejected; `chosen` says which."""
        return Rejections(self.settings, self.database, self._definitions)

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
