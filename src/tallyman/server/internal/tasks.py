"""Tasks of a worker: claim, fetch, keep alive, emit, complete. Every call may be repeated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from fastapi import APIRouter

from tallyman.control.dispatch.claim import Claimed, NotClaimed, claim, claim_next, claimed_before
from tallyman.control.dispatch.emit import emit
from tallyman.control.dispatch.ended import EndedAttempt
from tallyman.control.dispatch.report import heartbeat
from tallyman.domain.task.fence import Refusal
from tallyman.registry.task.pools import Pools
from tallyman.registry.task.tasks import Tasks
from tallyman.registry.task.worker_tokens import KnownWorker
from tallyman.server.dispatcher import PATIENCE_S, Caller, Dispatcher, Dispatching
from tallyman.server.internal.forms import ClaimForm, CompleteForm, EventsForm, FencedForm

router = APIRouter(prefix="/internal", tags=["worker"])


@router.post("/task-claim")
def task_claim(form: ClaimForm, worker: Caller, dispatcher: Dispatching) -> dict[str, Any]:
    """Claim a task, and get all that its work needs. Not claimed: do not run it."""
    who = f"{worker.name}/{form.worker_id}"
    if form.task_id is not None:
        with dispatcher.database.transaction() as tx:
            found = claim(tx, worker.owner, form.task_id, who)
    else:
        dispatcher.presence.claims(worker.owner, who)
        found = _next(form, worker, who, dispatcher)
        got = found.task.id if isinstance(found, Claimed) else None
        dispatcher.presence.claims(worker.owner, who, got)
    return dispatcher.answer(worker.owner, found) if isinstance(found, Claimed) else found.to_json()


def _next(
    form: ClaimForm, worker: KnownWorker, who: str, dispatcher: Dispatcher
) -> Claimed | NotClaimed:
    """Claim the next task. Only so many calls may wait for one: the others ask again."""
    may_wait = not dispatcher.draining.is_set() and dispatcher.waiting.acquire(blocking=False)
    try:
        before = _before(form, worker, who, dispatcher)
        if before is not None or dispatcher.draining.is_set():
            return before or NotClaimed(Refusal.EMPTY)
        wait_s = form.wait_s if may_wait else 0.0
        pools = form.pools or dispatcher.pools(worker.owner)
        found = claim_next(
            dispatcher.database, dispatcher.wakeups, worker.owner, pools, who, wait_s
        )
        if isinstance(found, Claimed):
            return found
        # The call without an answer may have waited on, and claimed meanwhile.
        return _before(form, worker, who, dispatcher) or found
    finally:
        if may_wait:
            dispatcher.waiting.release()


def _before(
    form: ClaimForm, worker: KnownWorker, who: str, dispatcher: Dispatcher
) -> Claimed | None:
    """Return what the worker claimed before without getting the answer."""
    if not form.answer_lost:
        return None
    with dispatcher.database.transaction() as tx:
        return claimed_before(tx, worker.owner, who)


@router.get("/task-fetch")
def task_fetch(task_id: UUID, worker: Caller, dispatcher: Dispatching) -> dict[str, Any]:
    """Read a task. Changes nothing. Without the variables of its slot: they may be secrets, and
    whoever works on the task got them with its claim."""
    with dispatcher.database.transaction() as tx:
        task, slot = Tasks(tx).get(task_id, worker.owner), Pools(tx).held(task_id)
        return task.payload(slot and replace(slot, env={}), Tasks(tx).pins(task))


@router.post("/heartbeat")
def task_heartbeat(form: FencedForm, worker: Caller, dispatcher: Dispatching) -> dict[str, Any]:
    """Renew the lease of a running attempt; the answer says whether it should stop."""
    owner, fence = worker.owner, form.fence
    beat = dispatcher.database.durably(lambda tx: heartbeat(tx, owner, fence), 5.0)
    dispatcher.presence.beats(owner, fence.task)
    return {
        "cancel_requested": beat.cancel,
        "lease_expires_at": beat.lease_until.isoformat(),
        "deadline": beat.deadline_at.isoformat(),
    }


@router.post("/events", status_code=202)
def task_events(form: EventsForm, worker: Caller, dispatcher: Dispatching) -> dict[str, Any]:
    """Emit events of a running attempt."""
    owner, fence = worker.owner, form.fence
    events = [one.event for one in form.events]
    emitted = dispatcher.database.durably(lambda tx: emit(tx, owner, fence, events), PATIENCE_S)
    return {"accepted": emitted.accepted, "duplicates": emitted.duplicates}


@router.post("/task-complete")
def task_complete(form: CompleteForm, worker: Caller, dispatcher: Dispatching) -> dict[str, Any]:
    """End an attempt, with its last events, in one transaction."""
    report, made = form.report, form.outcome
    reported = dispatcher.finish(worker.owner, report, made)
    if not reported.duplicate:
        EndedAttempt(
            task=reported.task,
            status=reported.status,
            error=report.error,
            again=reported.again,
            rows=made.outcome.result.rows_out if made is not None else None,
        ).log()
    return {
        "status": reported.status.value,
        "duplicate": reported.duplicate,
        "accepted": reported.emitted.accepted,
        "duplicates": reported.emitted.duplicates,
    }
