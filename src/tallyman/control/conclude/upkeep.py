"""Upkeep: close runs whose process died, and expire approvals that nobody answered."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from tallyman.control.conclude import process
from tallyman.control.seal import seal
from tallyman.domain.history.run import Status
from tallyman.domain.history.seal import Seal
from tallyman.domain.pipeline.target import Target
from tallyman.errors import SigningKeyUnusable
from tallyman.on_demand import OnDemand
from tallyman.registry.audit import Audit
from tallyman.registry.database import Database, Transaction
from tallyman.registry.locks import Alone, alone
from tallyman.registry.run.approvals import Approvals
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs
from tallyman.registry.seals import Seals
from tallyman.settings import Settings

if TYPE_CHECKING:
    from tallyman.control.conclude import close, ended
    from tallyman.control.seal import signature
else:
    close = OnDemand("tallyman.control.conclude.close")
    ended = OnDemand("tallyman.control.conclude.ended")
    signature = OnDemand("tallyman.control.seal.signature")


def upkeep(database: Database, settings: Settings) -> None:
    """Bring runs up to date before a command looks at them."""
    for released in database.durably(lambda tx: _release_gone(tx, settings)):
        ended.record(settings.home, released)
    # Without the signing key, leave expired approvals to a command that has the key.
    with contextlib.suppress(SigningKeyUnusable):
        for run in database.durably(lambda tx: _expire(tx, settings)):
            with contextlib.suppress(OSError):  # the next command retries it below
                close.close_again(database, settings, run, _signer(database, settings))
        _finish_decided(database, settings)
    seal.place(database, settings.home, settings.owner)


def _release_gone(tx: Transaction, settings: Settings) -> list[ended.Released]:
    found = []
    for run in Runs(tx).list(settings.owner, status=Status.RUNNING, limit=1000):
        if not process.is_gone(run):
            continue
        why = f"its process died ({run.executor_node})"
        released = ended.release(tx, settings.home, run, why)
        if released.status is not None:
            details = {"node": run.executor_node, "seen_by": settings.actor}
            event = f"run.{released.status.value}"
            Audit(tx, run.owner).add(event, "tallyman", run.name, run=run.id, details=details)
            found.append(released)
    return found


def _expire(tx: Transaction, settings: Settings) -> set[UUID]:
    """Expire questions that nobody answered in time, and return their runs."""
    questions = Approvals(tx).expire(settings.owner)
    if questions:
        signature.signer(tx, settings)  # fails now, not after the decision
    for question in questions:
        run, target = question["run_id"], Target(question["asset"], question["partition"])
        message = f"nobody decided before {question['timeout_at']:%Y-%m-%d %H:%M:%S %Z}"
        facts = {"code": "approval_expired", "message": message}
        Materializations(tx).decide(run, target, Status.FAILED, message, {"error": facts})
        details = {"target": str(target), "seen_by": settings.actor}
        Audit(tx, settings.owner).add(
            "approval.expired", "tallyman", str(target), run=run, details=details
        )
        close.conclude(tx, run, "tallyman")
    return {question["run_id"] for question in questions}


def _finish_decided(database: Database, settings: Settings) -> None:
    """Write the report, last event and seal of runs whose process died right after a decision."""
    for run in database.durably(lambda tx: Seals(tx).left_waiting(settings.owner)):
        # A folder that cannot be written must not block other commands.
        with contextlib.suppress(OSError), alone(database, Alone.CLOSING, str(run)) as held:
            left = database.durably(lambda tx: Seals(tx).left_waiting(settings.owner))
            if held and run in left:
                close.close_ended(database, settings, run, _signer(database, settings))


def _signer(database: Database, settings: Settings) -> Callable[[Seal], Seal]:
    return database.durably(lambda tx: signature.signer(tx, settings))
