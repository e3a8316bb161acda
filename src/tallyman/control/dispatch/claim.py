"""Claim: one worker gets a task, with a slot if its pool has slots, or learns why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tallyman.domain.task.fence import Refusal, refusal
from tallyman.domain.task.queue import Queue, QueueBlocked
from tallyman.domain.task.state import TaskStatus
from tallyman.domain.task.task import Slot, Task, queue_name
from tallyman.domain.version.owner import Owner
from tallyman.errors import NotFound
from tallyman.registry.database import Transaction
from tallyman.registry.task.leases import Leases
from tallyman.registry.task.pools import Pools
from tallyman.registry.task.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Claimed:
    task: Task
    slot: Slot | None

    def to_json(self) -> dict[str, Any]:
        task = self.task
        return {
            "status": "Claimed",
            "attempt": task.attempt,
            "lease_token": str(task.lease_token),
            "lease_expires_at": task.lease_until and task.lease_until.isoformat(),
            "task": task.payload(self.slot),
        }


@dataclass(frozen=True, slots=True)
class NotClaimed:
    reason: Refusal

    def to_json(self) -> dict[str, Any]:
        return {"status": "NotClaimed", "reason": self.reason.value}


def claim(tx: Transaction, owner: Owner, task: UUID, worker: str) -> Claimed | NotClaimed:
    """Begin the next attempt of a task. Of many that claim it at once, one gets it; that one may
    repeat its claim and gets the same answer."""
    try:
        return _claim(tx, Tasks(tx).lock(task, owner), worker)
    except NotFound:
        return NotClaimed(Refusal.NOT_FOUND)


def _claim(tx: Transaction, found: Task, worker: str) -> Claimed | NotClaimed:
    """Claim a task that is locked."""
    if found.status is TaskStatus.RUNNING and found.worker == worker:
        return Claimed(found, Pools(tx).held(found.id))  # the answer to its first claim got lost
    why = refusal(found)
    if why is not None:
        return NotClaimed(why)
    pools = Pools(tx)
    if found.max_concurrency is not None and pools.running(found) >= found.max_concurrency:
        return NotClaimed(Refusal.CONCURRENCY_LIMIT)
    slot = None
    if found.limited:
        slot = pools.lease(found)
        if slot is None:
            return NotClaimed(Refusal.NO_SLOT)
    claimed = Leases(tx).claim(found.id, worker, slot.index if slot else None)
    assert claimed is not None, "the row is locked, and was claimable"
    return Claimed(claimed, slot)


def claimed_before(tx: Transaction, owner: Owner, worker: str) -> Claimed | None:
    """Return the running task of a worker that did not get the answer to its last claim."""
    held = Leases(tx).held(owner, worker)
    return None if held is None else Claimed(held, Pools(tx).held(held.id))


def claim_next(
    queue: Queue, owner: Owner, pools: Sequence[str], worker: str, wait_s: float
) -> Claimed | NotClaimed:
    """Claim the task of the next message of the pools; wait up to `wait_s` for one. A message
    whose task cannot be claimed is dropped: what makes it claimable sends another. Messages of a
    pool without a free slot stay."""
    queues = [queue_name(owner, pool) for pool in pools]

    def begin(tx: Transaction, task: UUID) -> Claimed | None:
        # Not waiting for a task that somebody has: the message is locked meanwhile, and the
        # drainer may wait for that. Whoever leaves the task claimable sends another one.
        found = Tasks(tx).lock_now(task, owner)
        answer = None if found is None else _claim(tx, found, worker)
        if isinstance(answer, Claimed):
            return answer
        if answer is not None and answer.reason is Refusal.NO_SLOT:
            raise QueueBlocked
        return None

    return queue.deliver(queues, begin, wait_s=wait_s) or NotClaimed(Refusal.EMPTY)
