"""The journal: an execution's writes to the registry. Each fact is durable before the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

from tallyman.control.conclude import ended
from tallyman.control.publish.of_run import publish_run
from tallyman.control.target.assignment import TargetOutcome
from tallyman.control.target.record import TargetRecord, spool
from tallyman.domain.codec import to_plain
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.run import Status
from tallyman.domain.history.seal import Seal
from tallyman.domain.pipeline.pipeline_version import PipelineVersion
from tallyman.domain.pipeline.target import Target
from tallyman.domain.version.commit import Commit
from tallyman.domain.version.dataset import Fragment
from tallyman.domain.version.outside_entry import OutsideEntry
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.registry.audit import Audit
from tallyman.registry.database import Database, Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.run.runs import Runs
from tallyman.registry.version.fragments import Fragments
from tallyman.registry.version.outside_entries import OutsideEntries

T = TypeVar("T")
Events = Sequence[LineageEvent]


@dataclass(frozen=True, slots=True)
class Journal:
    """The registry writes of a run that this process holds. Refused if another one has taken it
    over."""

    database: Database
    run: RunRecord
    actor: str
    sign: Callable[[Seal], Seal] = lambda seal: seal

    @property
    def node(self) -> str:
        return self.run.executor_node or ""

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Do work in a transaction, or raise RunTaken."""

        def held(tx: Transaction) -> T:
            Runs(tx).hold(self.run.id, self.run.executor)
            return work(tx)

        return self.database.durably(held)

    # ---- the run ------------------------------------------------------------------------

    def begin(self, targets: Iterable[Target], version: PipelineVersion) -> None:
        chosen = list(targets)

        def work(tx: Transaction) -> None:
            runs = Runs(tx)
            Pipelines(tx).add(self.run.owner, version)
            runs.add(self.run)
            Materializations(tx).plan(self.run.id, chosen)
            self._audit(
                tx, "run.started", {"targets": len(chosen), **to_plain(self.run.params)}, key
            )

        key = uuid4()
        self.database.durably(work)

    def claim(self, version: PipelineVersion, was: Status) -> None:
        """Resume the run with the current pipeline."""

        def work(tx: Transaction) -> None:
            Pipelines(tx).add(self.run.owner, version)
            Runs(tx).claim(self.run)
            Materializations(tx).reset(self.run.id)
            self._audit(tx, "run.resumed", {"was": was.value}, key)

        key = uuid4()
        self.database.durably(work)

    def emit(self, events: Events) -> None:
        """Put events into the spool."""
        self.write(lambda tx: spool(tx, self.run, events))

    def check(self) -> None:
        """Raise RunTaken if another process has taken over the run."""
        self.write(lambda _: None)

    def beat(self) -> bool:
        """Renew the lease. True if somebody asked to cancel the run."""
        return self.database.durably(
            lambda tx: Runs(tx).beat(self.run.id, self.run.executor), patience=5
        )

    def abandon(self, home: Path) -> None:
        """Record that the user interrupted the run, unless it has ended or another process has
        taken it over."""

        def work(tx: Transaction) -> ended.Released:
            why = f"interrupted by {self.actor}"
            released = ended.release(tx, home, self.run, why, canceled=True)
            if released.status is not None:
                self._audit(tx, "run.canceled", {"interrupted": True}, key)
            return released

        key = uuid4()
        ended.record(home, self.database.durably(work, patience=5))

    def rows(self) -> dict[Target, Materialization]:
        found = self.database.durably(lambda tx: Materializations(tx).of_run(self.run.id))
        return {row.target: row for row in found}

    def _audit(self, tx: Transaction, event: str, details: Mapping[str, Any], key: UUID) -> None:
        audit = Audit(tx, self.run.owner)
        audit.add(event, self.actor, self.run.name, run=self.run.id, details=details, key=key)

    # ---- its targets --------------------------------------------------------------------

    def started(self, target: Target, attempt: int, definition: str, events: Events) -> None:
        def work(tx: Transaction) -> None:
            Materializations(tx).start(
                self.run.id, target, attempt=attempt, definition=definition, node=self.node
            )
            spool(tx, self.run, events)

        self.write(work)

    def step(self, target: Target, step: str) -> None:
        self.write(lambda tx: Materializations(tx).step(self.run.id, target, step))

    def opened(self, fragment: Fragment) -> None:
        self.write(lambda tx: Fragments(tx).open(fragment, self.run.id))

    def publish(self, warehouse: Warehouse) -> tuple[Commit | None, list[OutsideEntry]]:
        """Publish the whole run in one commit, or raise a conflict. Return also the outside entries
        that were wrong before."""

        def work(tx: Transaction) -> tuple[Commit | None, list[OutsideEntry]]:
            entries = OutsideEntries(tx, self.run.owner.org)
            wrong = entries.differing()
            commit = publish_run(tx, warehouse, self.run, self.actor)
            left = entries.differing() if wrong else []
            return commit, [entry for entry in wrong if entry not in left]

        return self.write(work)

    def record(self, outcome: TargetOutcome) -> None:
        """Record the outcome of a target in one transaction."""
        key = uuid4()
        self.write(lambda tx: TargetRecord(tx, self.run, self.actor, self.node).add(outcome, key))
