"""Checks of past runs: is all as it was sealed, are the inputs the same, is it reproduced?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tallyman.control.bind.inputs import Pins
from tallyman.control.conclude import upkeep
from tallyman.control.pipeline import past_versions
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.seal.chain import Chain, check_chain
from tallyman.control.seal.check import look, witness
from tallyman.control.verify.can_reproduce import Reproducible
from tallyman.control.verify.inputs import Bound, Checked
from tallyman.control.verify.reopen import Again
from tallyman.control.verify.reproduce import AgainListener, Reproduction, pinned_spark
from tallyman.control.verify.verify import Case, Verification, differing_versions, verify
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.reproduction import Reproduced
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.past_run import Run
from tallyman.project.runs import ProjectRuns
from tallyman.query.diff.diff import difference_facts
from tallyman.registry.database import Transaction
from tallyman.registry.run.reads import Reads


@dataclass(frozen=True, slots=True)
class ProjectChecks:
    """Compares runs with their seals and with the present, and checks the chain of seals."""

    workspace: Workspace

    def verify(self, run: str, *, exact: bool = False) -> Verification:
        """Verify a run from its files: it must be balanced, and every byte must be as sealed."""
        place, record = self._runs.place(run)
        known = self.workspace.database.durably(
            lambda tx: witness(tx, self.workspace.settings, record)
        )
        case = Case(
            folder=place,
            name=record.name if record else place.name,
            sealed=look(place, known),
            reused=self._runs.reused(record),
            exact=exact,
            versions=self._versions(record),
        )
        return verify(case, self._again, self.workspace.spark)

    def _versions(self, record: RunRecord | None) -> Callable[[Target, StoredLedger], list[str]]:
        """Return a function that compares what a target read with the registry; a run copied from
        elsewhere is not in it."""
        rows = self._runs.materializations(record) if record else []
        made = {row.target: row for row in rows if row.status.good}
        database = self.workspace.database

        def differing(tx: Transaction, row: Materialization, ledger: StoredLedger) -> list[str]:
            result = Reads(tx).result(row.reused_id) if row.reused_id else row
            return list(differing_versions(tx, result, ledger)) if result else []

        return lambda target, ledger: (
            database.durably(lambda tx: differing(tx, made[target], ledger))
            if target in made
            else []
        )

    def _again(self, run: Run) -> Callable[[Target, Path], Again]:
        """Return a function that reopens targets of a past run, with the versions that it pinned
        unless it was copied from elsewhere."""
        found = run.manifest
        _, record = self._runs.place(run.run_id)
        pins = Pins(self.workspace, record.id, record.pins) if record else Pins(self.workspace)
        return lambda target, place: Again(target, place, found.id, found.started_at, pins)

    def chain(self, head: str | None = None) -> Chain:
        """Check every seal of the project, from the first: each must name the one before it."""
        upkeep.upkeep(self.workspace.database, self.workspace.settings)
        return check_chain(self.workspace.database, self.workspace.settings, head)

    def check_inputs(self, run: str) -> Checked:
        """Check that config, code and inputs are still what the run was bound to; report the first
        difference."""
        record = self._runs.find(run)
        return _bound(record, past_versions.asked_for(self.workspace, record)).check()

    def reproduce(
        self,
        run: str,
        *,
        spark_conf: Mapping[str, str] | None = None,
        keep: bool = False,
        listen: AgainListener = lambda *_: None,
    ) -> Reproduced:
        """Make a run again from its pinned inputs in a temporary folder, and compare; nothing is
        published. If the files declare another pipeline now, the run's stored plan is used."""
        record = self._runs.find(run)
        then = past_versions.as_of(self.workspace, record)
        bound = _bound(record, then)
        conf = pinned_spark(
            bound.config.get("spark", {}), self.workspace.settings.spark, spark_conf or {}
        )
        jobs = bound.record.params.options.jobs
        with then.with_spark(conf) as (workspace, refused):
            definitions = Definitions.of(workspace, bound.definitions.chosen)
            checked = Reproducible(bound, definitions)
            found = Reproduction(checked, difference_facts, listen, jobs, keep).reproduce()
        stored = then.stored.hash if then.stored else None
        return replace(found, not_applied=tuple(refused), stored_version=stored)

    @property
    def _runs(self) -> ProjectRuns:
        return ProjectRuns(self.workspace)


def _bound(record: RunRecord, workspace: Workspace) -> Bound:
    options = record.params.options
    assets = [n for n in record.params.assets if n in workspace.pipeline.assets]
    evidence, thresholds = options.evidence, options.thresholds
    return Bound(record, Definitions.of(workspace, assets, evidence, thresholds))
