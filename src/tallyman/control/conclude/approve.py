"""Approve or reject a result that waits for a person. Each question is decided once and
recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from tallyman.control.conclude.close import close_ended, conclude
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.seal.signature import signer
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.run import Status
from tallyman.domain.pipeline.approval import Decision
from tallyman.domain.pipeline.target import Target
from tallyman.errors import AlreadyDecided, NotFound
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.locks import Alone, alone
from tallyman.registry.run.approvals import Approvals
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs

GoOn = Callable[[Transaction], bool]
"""Lets a run go on by itself after a yes; False if it has nothing left to make."""


def decide(
    workspace: Workspace, run: RunRecord, target: Target, decision: Decision, go_on: GoOn
) -> RunRecord:
    """Record the decision; let the run go on, or publish it if nothing else waits; return the run.
    Raises AlreadyDecided on a second decision."""
    database, settings = workspace.database, workspace.settings

    def work(tx: Transaction) -> RunRecord:
        _record(tx, run, target, decision)
        if decision.approved and go_on(tx):
            return Runs(tx).by_id(run.id)
        return conclude(tx, run.id, decision.actor, workspace.warehouse)

    # Check the signing key first: the decision seals the run again, so it must not be recorded if
    # that would fail.
    sign = database.durably(lambda tx: signer(tx, settings))
    with alone(database, Alone.CLOSING, str(run.id), wait=True):
        decided = database.durably(work)
        trouble = close_ended(database, settings, run.id, sign)
    if trouble is not None:
        raise trouble
    return decided


def _record(tx: Transaction, run: RunRecord, target: Target, decision: Decision) -> None:
    question = Approvals(tx).newest(run.id, target)
    if question is None:
        raise NotFound(f"approval in run {run.name} for", str(target))
    if not Approvals(tx).decide(question["id"], decision):
        now = Approvals(tx).newest(run.id, target) or question
        raise AlreadyDecided(str(target), now["status"], now["decision_by"])
    status = Status.SUCCESS if decision.approved else Status.FAILED
    facts, message = _facts(question["id"], decision)
    Materializations(tx).decide(run.id, target, status, message, facts)
    Audit(tx, run.owner).add(
        f"approval.{decision.word}",
        decision.actor,
        str(target),
        run=run.id,
        details={"reason": decision.reason, **_conditions(decision)},
        key=decision.key,
    )


def _conditions(decision: Decision) -> dict[str, Any]:
    return {"modifications": dict(decision.modifications)} if decision.modifications else {}


def _facts(question: UUID, decision: Decision) -> tuple[dict[str, Any], str | None]:
    """Return what the materialization stores about the decision, and the error message of a
    rejection."""
    facts: dict[str, Any] = {
        "approval": {
            "id": str(question),
            "decision": decision.word,
            "by": decision.actor,
            "reason": decision.reason,
            **_conditions(decision),
        }
    }
    if decision.approved:
        return facts, None
    message = f"rejected by {decision.actor}: {decision.reason or 'no reason given'}"
    facts["error"] = {"code": "checkpoint_rejected", "message": message}
    return facts, message
