"""Deciding on a result that waits: once, by a person, on the record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyman.control import upkeep
from tallyman.domain.materialization import RunRecord
from tallyman.domain.run import Status
from tallyman.domain.target import Target
from tallyman.errors import AlreadyDecided, NotFound
from tallyman.registry.approvals import Approvals
from tallyman.registry.audit import Audit
from tallyman.registry.database import Database, Transaction
from tallyman.registry.materializations import Materializations


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    approved: bool
    actor: str
    reason: str | None


def decide(
    database: Database, project: Path, run: RunRecord, target: Target, decision: Decision
) -> RunRecord:
    """The run as it is after the decision. A second decision is AlreadyDecided."""

    approved, actor, reason = decision.approved, decision.actor, decision.reason

    def work(tx: Transaction) -> RunRecord:
        question = Approvals(tx).newest(run.id, target)
        if question is None:
            raise NotFound(f"approval in run {run.name} for", str(target))
        won = Approvals(tx).decide(question["id"], approved=approved, actor=actor, reason=reason)
        if not won:
            now = Approvals(tx).newest(run.id, target) or question
            raise AlreadyDecided(str(target), now["status"], now["decision_by"])
        status = Status.SUCCESS if approved else Status.FAILED
        message = None if approved else f"rejected by {actor}: {reason or 'no reason given'}"
        word = "approved" if approved else "rejected"
        facts: dict[str, Any] = {
            "approval": {"id": str(question["id"]), "decision": word, "by": actor, "reason": reason}
        }
        if message:
            facts["error"] = {"code": "checkpoint_rejected", "message": message}
        Materializations(tx).decide(run.id, target, status, message, facts)
        Audit(tx).add(
            f"approval.{word}",
            actor,
            str(target),
            run=run.id,
            details={"reason": reason},
        )
        return upkeep.settle(tx, run.id)

    settled = database.durably(work)
    upkeep.rewrite_report(database, project, settled)
    return settled
