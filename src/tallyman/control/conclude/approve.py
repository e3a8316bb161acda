"""Approve or reject a result that waits for a person. Each question is decided once and
recorded."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tallyman.control.conclude import upkeep
from tallyman.control.conclude.exports import export, made_in, records_of
from tallyman.control.publish.of_run import publish_run
from tallyman.control.seal.signature import signer
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.run import Status
from tallyman.domain.pipeline.approval import Decision
from tallyman.domain.pipeline.target import Target
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import AlreadyDecided, NotFound
from tallyman.registry.audit import Audit
from tallyman.registry.database import Database, Transaction
from tallyman.registry.run.approvals import Approvals
from tallyman.registry.run.materializations import Materializations
from tallyman.settings import Settings


def decide(
    database: Database,
    settings: Settings,
    warehouse: Warehouse,
    run: RunRecord,
    target: Target,
    decision: Decision,
) -> RunRecord:
    """Record the decision, publish the run if nothing else waits, and return the run.

    Raises AlreadyDecided on a second decision.
    """

    def work(tx: Transaction) -> RunRecord:
        question = Approvals(tx).newest(run.id, target)
        if question is None:
            raise NotFound(f"approval in run {run.name} for", str(target))
        if not Approvals(tx).decide(question["id"], decision):
            now = Approvals(tx).newest(run.id, target) or question
            raise AlreadyDecided(str(target), now["status"], now["decision_by"])
        status = Status.SUCCESS if decision.approved else Status.FAILED
        facts, message = _facts(question["id"], decision)
        Materializations(tx).decide(run.id, target, status, message, facts)
        Audit(tx).add(
            f"approval.{decision.word}",
            decision.actor,
            str(target),
            run=run.id,
            details={"reason": decision.reason},
            key=decision.key,
        )
        return conclude(tx, warehouse, run.id, decision.actor)

    home = settings.home
    # Check the signing key first: the decision seals the run again, so it must not be recorded if
    # that would fail.
    sign = database.durably(lambda tx: signer(tx, settings))
    concluded = database.durably(work)
    upkeep.rewrite_report(database, home, concluded, sign)
    if concluded.status is Status.SUCCESS:
        export(records_of(settings), concluded.name, made_in(database, home, concluded))
    return concluded


def conclude(tx: Transaction, warehouse: Warehouse, run: UUID, actor: str) -> RunRecord:
    """Update the run's status after a decision, and publish the run if nothing else waits."""
    concluded = upkeep.conclude(tx, run, actor)
    if concluded.status is Status.SUCCESS:
        publish_run(tx, warehouse, concluded, actor)
    return concluded


def _facts(question: UUID, decision: Decision) -> tuple[dict[str, Any], str | None]:
    """Return what the materialization stores about the decision, and the error message of a
    rejection."""
    facts: dict[str, Any] = {
        "approval": {
            "id": str(question),
            "decision": decision.word,
            "by": decision.actor,
            "reason": decision.reason,
        }
    }
    if decision.approved:
        return facts, None
    message = f"rejected by {decision.actor}: {decision.reason or 'no reason given'}"
    facts["error"] = {"code": "checkpoint_rejected", "message": message}
    return facts, message
