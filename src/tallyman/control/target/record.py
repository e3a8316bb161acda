"""Record the outcome of a target, in a transaction of the caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from tallyman.control.delivery.destination import disabled
from tallyman.control.target.assignment import TargetOutcome
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.materialization import REJECTIONS_FRAGMENT, Made, RunRecord
from tallyman.domain.history.run import Status
from tallyman.domain.pipeline.target import Target
from tallyman.domain.version.dataset import Fragment
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import FragmentGone, OutcomeUnfit
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.run.approvals import Approvals
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.spool import Spool
from tallyman.registry.version.fragments import Fragments


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """Records the outcomes of one run's targets."""

    tx: Transaction
    run: RunRecord
    actor: str
    node: str

    def add(self, outcome: TargetOutcome, key: UUID) -> None:
        """Record an outcome with its inputs and events, and ask for approval if required."""
        if outcome.made is not None:
            self._succeeded(outcome, outcome.made, key)
        elif outcome.reused is not None:
            self._skipped(outcome, outcome.reused)
        else:
            self._ended(outcome)
        spool(self.tx, self.run, outcome.events)

    def _succeeded(self, outcome: TargetOutcome, made: Made, key: UUID) -> None:
        asks, target = outcome.asks, outcome.target
        status = Status.WAITING if asks else Status.SUCCESS
        there = self._published_equal(target, made.fragment)
        new = (*made.registered,) if there else (made.fragment, *made.registered)
        made = replace(made, fragment=there or made.fragment)
        own = Materializations(self.tx).succeed(self.run.id, target, made, status)
        for fragment in new:
            self._prepared(fragment, own, target.asset)
        if asks is None:
            return
        Approvals(self.tx).ask(
            self.run.id,
            target,
            attempt=outcome.result.attempt,
            message=asks.message,
            timeout_s=asks.timeout_s,
            context={"when": asks.when, "rows_out": outcome.result.rows_out},
        )
        Audit(self.tx, self.run.owner).add(
            "approval.requested",
            self.actor,
            self.run.name,
            run=self.run.id,
            details={"target": str(target)},
            key=key,
        )

    def _published_equal(self, target: Target, made: Fragment) -> Fragment | None:
        """Return the published fragment with the same rows, if it is all of the target: the result
        is that one, so that the readers of this run and those of the version read the same."""
        params = self.run.params
        kept_apart = {*params.options.force, *params.append}
        if target.asset in kept_apart or params.options.replay is not None:
            return None
        ordinal = self.run.pins.get(made.dataset_id, 0)
        live = Fragments(self.tx).in_scope(made.dataset_id, ordinal, target.partition)
        there = list(live.values())
        if len(there) != 1 or there[0].invalidated:
            return None
        found = Fragments(self.tx).get([there[0].id]).get(there[0].id)
        if found is None or (found.digest, found.schema) != (made.digest, made.schema):
            return None
        if found.warehouse is None or found.owner is None:
            return None
        return found if Warehouse(Path(found.warehouse), found.owner).has(found) else None

    def _skipped(self, outcome: TargetOutcome, reused: UUID) -> None:
        target = outcome.target
        skipped = Materializations(self.tx).skip(
            self.run.id, target, reused, node=self.node, metadata=outcome.metadata
        )
        if not skipped:
            raise OutcomeUnfit(str(target), f"{reused} is not a result of it")
        if outcome.rejections is not None:
            self._prepared(outcome.rejections, reused, target.asset)
        rejections = outcome.metadata.get(REJECTIONS_FRAGMENT)
        if rejections is not None and not self._of_result(UUID(str(rejections)), reused):
            raise OutcomeUnfit(str(target), f"fragment {rejections} is not of result {reused}")

    def _of_result(self, fragment: UUID, result: UUID) -> bool:
        found = Fragments(self.tx).get([fragment]).get(fragment)
        return found is not None and found.materialization_id == result

    def _ended(self, outcome: TargetOutcome) -> None:
        result = outcome.result
        status = Status.CANCELED if result.status is Status.CANCELED else Status.FAILED
        message = str((result.error or {}).get("message", ""))
        Materializations(self.tx).end(
            self.run.id, outcome.target, status, message, outcome.metadata
        )

    def _prepared(self, fragment: Fragment, made: UUID, asset: str) -> None:
        whole = replace(fragment, materialization_id=made)
        if not Fragments(self.tx).prepare(whole, self.run.id):
            raise FragmentGone(asset)


def spool(tx: Transaction, run: RunRecord, events: Sequence[LineageEvent]) -> None:
    """Put events of a run into the spool, unless events are disabled."""
    if not disabled():
        Spool(tx).add(run.owner, run.id, events)
