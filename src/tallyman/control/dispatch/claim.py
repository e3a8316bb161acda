"""Claim: one worker gets a task, with a slot if its pool has slots, or learns why not."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tallyman.domain.task.fence import Fence, Refusal, refusal
from tallyman.domain.task.state import TaskStatus
from tallyman.domain.task.task import Slot, Task
from tallyman.domain.version.owner import Owner
from tallyman.errors import NotFound
from tallyman.registry.database import Database, Transaction
from tallyman.registry.task.leases import Leases
from tallyman.registry.task.pools import Pools
from tallyman.registry.task.tasks import Tasks
from tallyman.registry.task.wakeups import Wakeups

POLL_S = 1.0
"""How often a claim that waits looks by itself: a notification may be lost."""


class _Full(Exception):
    """Another claim took the last place."""


@dataclass(frozen=True, slots=True)
class Claimed:
    task: Task
    slot: Slot | None

    @property
    def fence(self) -> Fence:
        assert self.task.lease_token is not None
        return Fence(
            task=self.task.id, attempt=self.task.attempt, lease_token=self.task.lease_token
        )

    def to_json(self, pins: Mapping[str, Any]) -> dict[str, Any]:
        task = self.task
        return {
            "status": "Claimed",
            "attempt": task.attempt,
            "lease_token": str(task.lease_token),
            "lease_expires_at": task.lease_until and task.lease_until.isoformat(),
            "task": task.payload(self.slot, pins),
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
    database: Database,
    wakeups: Wakeups,
    owner: Owner,
    pools: Sequence[str],
    worker: str,
    wait_s: float,
) -> Claimed | NotClaimed:
    """Claim the most urgent task of the pools; wait up to `wait_s` for one."""
    until = time.monotonic() + wait_s
    with wakeups.waiting(owner, pools) as waiter:
        while True:
            found = waiter.look(lambda: _most_urgent(database, owner, pools, worker))
            left = until - time.monotonic()
            if found is not None or left <= 0 or wakeups.closed:
                return found or NotClaimed(Refusal.EMPTY)
            waiter.wait(min(left, POLL_S))


def _most_urgent(
    database: Database, owner: Owner, pools: Sequence[str], worker: str
) -> Claimed | None:
    """Claim the most urgent task that may begin. If other claims take the last place at that
    moment, look again: an asset is full then, and a pool left out, because a slot may be free again
    before this is over."""
    full: set[str] = set()
    while True:
        try:
            with database.transaction() as tx:
                task = Tasks(tx).lock_next(owner, [pool for pool in pools if pool not in full])
                if task is None:
                    return None
                answer = _claim(tx, task, worker)
                if isinstance(answer, Claimed):
                    return answer
                if answer.reason is Refusal.NO_SLOT:
                    full.add(task.pool)
                raise _Full  # the task is let go at once
        except _Full:
            continue
