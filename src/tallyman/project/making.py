"""Make what the pipeline declares: run, backfill, resume, cancel, decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from tallyman.control.conclude import approve
from tallyman.control.dispatch import follow
from tallyman.control.pipeline import past_versions
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.run import begin
from tallyman.control.tasks import advance, run_tasks
from tallyman.domain.account.fate import Evidence
from tallyman.domain.history.materialization import RunMadeBy, RunRecord
from tallyman.domain.history.options import Options
from tallyman.domain.history.run import RunIdentity, RunResult, Status
from tallyman.domain.pipeline.approval import Decision
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.domain.pipeline.selection import find_asset, named, select
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.errors import NotFound, RunRemoved, UsageError
from tallyman.errors.wording import nearest
from tallyman.on_demand import OnDemand
from tallyman.project.runs import ProjectRuns
from tallyman.project.server_runs import ServerRuns
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.run.lineage import Lineage
from tallyman.registry.run.materializations import Materializations

if TYPE_CHECKING:
    from tallyman.control.run import cancel
    from tallyman.control.run.execute import Execution
    from tallyman.control.run.progress import Listener
else:
    cancel = OnDemand("tallyman.control.run.cancel")

MOST_JOBS = 32


@dataclass(frozen=True, slots=True)
class ProjectMaking:
    """Starts runs, and decides about them."""

    workspace: Workspace

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
        accept_shrink: Sequence[str] = (),
        meta: Mapping[str, str] | None = None,
        pipeline_version: str | None = None,
        listen: Listener = lambda *_: None,
    ) -> RunResult:
        """Run the selected assets, or all if none is named. Unchanged assets are skipped.
        `pipeline_version`: a stored version to run in place of the project's files."""
        if evidence is not None and evidence not in tuple(Evidence):
            raise UsageError(f"evidence is 'keys' or 'digest', not {evidence!r}")
        check_jobs(jobs)
        # Check the arguments first, before Spark starts.
        identity = RunIdentity.of(run_id, now=datetime.now(UTC))
        options = Options(
            selection=(selection,) if isinstance(selection, str) else tuple(selection),
            evidence=Evidence(evidence) if evidence else None,
            thresholds=None if thresholds is None else Thresholds.of(thresholds),
            jobs=jobs,
            go_on=go_on,
            good_partitions=good_partitions,
            accept_shrink=tuple(accept_shrink),
        )
        wanted = [partition] if isinstance(partition, str) else partition
        making = self
        if pipeline_version is not None:
            workspace = past_versions.at_version(self.workspace, pipeline_version)
            making = ProjectMaking(workspace)
            options = replace(options, stored_version=workspace.version())
        asked = making._asked(identity, options, wanted, force)
        asked = replace(asked, meta=dict(meta or {}))
        chosen = list(dict.fromkeys(target.asset for target in asked.targets))
        check_inputs(making.workspace.pipeline, chosen, options.accept_shrink)
        return begun(making.workspace, asked, making._definitions(chosen, options), listen)

    def _asked(
        self,
        identity: RunIdentity,
        options: Options,
        partitions: Sequence[str] | None,
        force: bool,
    ) -> begin.Begun:
        """Choose the targets; with `force`, those that are named are made even if unchanged."""
        pipeline, terms = self.workspace.pipeline, options.selection
        chosen = self._selected(terms, options)
        forced = frozenset(named(pipeline, terms) & set(chosen)) if force else frozenset[str]()
        return begin.Begun(
            actor=self.workspace.actor,
            identity=identity,
            targets=begin.targets_of(pipeline, chosen, partitions),
            options=replace(options, force=forced),
        )

    def backfill(  # noqa: PLR0913
        self,
        selection: str | Sequence[str] = (),
        *,
        first: str | None = None,
        last: str | None = None,
        partitions: Sequence[str] = (),
        jobs: int = 1,
        on_error: str = "continue",
        force: bool = False,
        accept_shrink: Sequence[str] = (),
        meta: Mapping[str, str] | None = None,
        listen: Listener = lambda *_: None,
    ) -> tuple[RunResult, dict[str, int]]:
        """Run every partition from `first` to `last`, or those that are listed. Also return how
        many succeeded, failed and were skipped."""
        if partitions and (first or last):
            raise UsageError("backfill: list partitions, or give a first and a last, not both")
        if on_error not in ("continue", "halt"):
            raise UsageError(f"on_error is continue or halt, not {on_error!r}")
        terms = (selection,) if isinstance(selection, str) else tuple(selection)
        chosen = self._selected(terms, Options())
        assets = self.workspace.pipeline.assets
        declared = [p for name in chosen if (p := assets[name].partitioned_by)]
        if not declared:
            raise UsageError(f"backfill: none of {', '.join(chosen)} is partitioned")
        keys = list(partitions) or declared[0].keys(first, last)
        result = self.run(
            terms,
            partition=keys,
            force=force,
            jobs=jobs,
            go_on=on_error == "continue",
            good_partitions=on_error == "continue",
            accept_shrink=accept_shrink,
            meta=meta,
            listen=listen,
        )
        return result, result.by_partition()

    def resume(
        self, run: str, *, jobs: int | None = None, listen: Listener = lambda *_: None
    ) -> RunResult:
        """Resume a run that did not finish: targets that succeeded are not made again."""
        if jobs is not None:
            check_jobs(jobs)
        record = self._runs.find(run)
        if record.removed_at is not None:
            raise RunRemoved(record.name, record.removed_at, str(record.removed_by))
        then = record.params.options
        options = then if jobs is None else replace(then, jobs=jobs)
        if record.status is Status.SUCCESS:
            return self._runs.result_of(record)
        assets = list(record.params.assets)
        making = ProjectMaking(past_versions.asked_for(self.workspace, record))
        for name in assets:
            find_asset(making.workspace.pipeline, name)
        definitions = making._definitions(assets, options)
        server, actor = self.workspace.settings.server, self.workspace.actor
        # The records of a replay are known to its own process only.
        if server is not None and options.replay_of is None:
            return ServerRuns(self.workspace, server).resume(record, definitions, listen)
        return executed(begin.resume(record, actor, definitions, options, listen))

    def watch(self, run: str, *, listen: Listener = lambda *_: None) -> RunResult:
        """Wait for the end of a run that workers or another process make, and return its
        result."""
        record = self._runs.find(run)
        server = self.workspace.settings.server if record.made_by is RunMadeBy.TASKS else None
        return ServerRuns(self.workspace, server).watch(record, listen)

    def modified(self, options: Options | None = None) -> set[str]:
        """List assets without a result of their current definition."""
        return self._definitions(self.workspace.pipeline.order(), options or Options()).modified()

    def _selected(self, terms: Sequence[str], options: Options) -> list[str]:
        return select(self.workspace.pipeline, terms, lambda: self.modified(options))

    def cancel(self, run: str, *, timeout_s: float = 30) -> Status:
        """Ask the run's process to stop; if it does not in time, cancel the run by force. A run
        that failed or was killed is canceled at once."""
        record = self._runs.find(run)
        if record.by_tasks:
            run_tasks.cancel(self.workspace.database, record)
        return cancel.cancel(self.workspace.database, self.workspace.settings, record, timeout_s)

    def decide(
        self,
        run: str,
        asset: str,
        *,
        approved: bool,
        partition: str | None = None,
        reason: str | None = None,
        modifications: Mapping[str, str] | None = None,
    ) -> RunRecord:
        """Approve or reject a result that waits for approval."""
        record = self._runs.find(run)
        made_by = ProjectRuns(past_versions.asked_for(self.workspace, record))
        own = self.workspace
        decision = Decision(
            approved=approved, actor=own.actor, reason=reason, modifications=modifications or {}
        )
        go_on, target = advance.after_decision(own, record), made_by.target(asset, partition)
        return approve.decide(own, record, target, decision, go_on)

    def invalidate(self, asset: str, *, partition: str | None = None, cascade: bool = False) -> int:
        """Declare results invalid, so that the next run makes them again. Return their number.
        Of assets that follow events, tasks make them again."""
        target = self._runs.target(asset, partition)

        def work(tx: Transaction) -> int:
            owner = self.workspace.owner
            hit: list[tuple[str, str | None]] = [(target.asset, target.partition)]
            if cascade:
                below = Lineage(tx, owner).down(target.asset, target.partition)
                hit += [(one.asset, one.partition) for one in below if one.pipeline is None]
            counts = {one: Materializations(tx).invalidate(owner, *one) for one in hit}
            count = sum(counts.values())
            tasks = follow.invalidated(tx, owner, [one for one in hit if counts[one]], uuid4())
            details = {"count": count, "cascade": cascade, "tasks": tasks}
            actor = self.workspace.actor
            Audit(tx, owner).add("asset.invalidated", actor, str(target), details=details)
            return count

        return self.workspace.database.durably(work)

    @property
    def _runs(self) -> ProjectRuns:
        return ProjectRuns(self.workspace)

    def _definitions(self, chosen: Sequence[str], options: Options) -> Definitions:
        evidence, thresholds = options.evidence, options.thresholds
        return Definitions.of(self.workspace, chosen, evidence, thresholds)


def begun(
    workspace: Workspace, asked: begin.Begun, definitions: Definitions, listen: Listener
) -> RunResult:
    """Make a run: by the workers of the server, if the settings name one, or in this process."""
    server = workspace.settings.server
    if server is not None:
        return ServerRuns(workspace, server).begin(asked, definitions, listen)
    return executed(begin.begin(asked, definitions, listen))


def executed(execution: Execution) -> RunResult:
    """Execute a run; on Ctrl-C stop it and record it as canceled."""
    try:
        return execution.execute()
    except KeyboardInterrupt:
        execution.abandon()
        raise


def check_inputs(pipeline: Pipeline, assets: Sequence[str], named: Sequence[str]) -> None:
    """Check that the assets read the inputs that are named."""
    known = dict.fromkeys(name for asset in assets for name in pipeline.assets[asset].inputs)
    for name in named:
        if name not in known:
            raise NotFound("input", name, nearest(name, known))


def check_jobs(jobs: int) -> None:
    if not 1 <= jobs <= MOST_JOBS:
        raise UsageError(f"jobs is a number from 1 to {MOST_JOBS}, not {jobs}")
