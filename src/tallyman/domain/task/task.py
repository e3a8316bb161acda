"""Tasks: what one is made from, its identity, and the form in which a worker gets it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid5

from tallyman.domain.codec import of_plain, to_plain
from tallyman.domain.task.event import NAMESPACE, WHOLE, Producer, Scope
from tallyman.domain.task.retry import RetryPolicy
from tallyman.domain.task.state import TaskStatus
from tallyman.domain.version.owner import DEFAULT_ORGANISATION, Owner

TARGET = "target"
"""The kind of a task that makes one target."""
DEFAULT_POOL = "default"
DEFAULT_RETRY = RetryPolicy()
LEASE_S = 30
"""How long a worker may be silent before another one takes over."""
CANCEL_GRACE_S = 30
"""How long a running task has to end after a cancel before it is canceled by force."""


class TriggerKind(StrEnum):
    EVENT = "event"
    INVALIDATION = "invalidation"
    MANUAL = "manual"
    SCHEDULE = "schedule"
    BACKFILL = "backfill"
    REMATERIALIZE = "rematerialize"
    APPROVAL = "approval"


def queue_name(owner: Owner, pool: str) -> str:
    """Name the queue of a pool."""
    return f"{owner}/{pool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTemplate:
    """All that is decided about the tasks of one asset before there is a reason to make one."""

    project: str
    asset: str
    kind: str
    org: str = DEFAULT_ORGANISATION
    pipeline_version: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    pool: str = DEFAULT_POOL
    priority: int = 0
    """Higher is earlier."""
    max_concurrency: int | None = None
    retry: RetryPolicy = DEFAULT_RETRY
    lease_s: int = LEASE_S

    @property
    def owner(self) -> Owner:
        return Owner(self.org, self.project)

    def to_json(self) -> dict[str, Any]:
        return to_plain(self)

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> TaskTemplate:
        return of_plain(cls, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task to be made: a template, the reason for it, and the scope it works on."""

    template: TaskTemplate
    trigger: TriggerKind
    dedupe_key: str
    """Names the reason: the same reason makes one task of an asset, however often it is given."""
    scope: Scope = WHOLE
    event: UUID | None = None
    run: UUID | None = None
    held_by: str | None = None

    @property
    def id(self) -> UUID:
        made = self.template
        # As JSON, because any of these may contain any character.
        name = json.dumps([made.org, made.project, made.kind, made.asset, self.dedupe_key])
        return uuid5(NAMESPACE, name)


def event_key(event: UUID) -> str:
    return f"event:{event}"


def invalidation_key(invalidation: UUID, partition: str | None) -> str:
    return f"invalidation:{invalidation}:{partition or ''}"


def tick_key(schedule: str, tick: datetime) -> str:
    return f"schedule:{schedule}:{tick.isoformat()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place in a pool with limited places, and the environment that comes with it."""

    pool: str
    index: int
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as it is stored."""

    id: UUID
    org: str
    project: str
    kind: str
    asset: str
    pipeline_version: str | None
    run_id: UUID | None
    config: Mapping[str, Any]
    trigger: TriggerKind
    event_id: UUID | None
    dedupe_key: str
    scope: Scope
    pool: str
    priority: int
    max_concurrency: int | None
    status: TaskStatus
    attempt: int
    failures: int
    max_attempts: int
    timeout_s: int
    lease_s: int
    lease_token: UUID | None
    lease_until: datetime | None
    deadline_at: datetime | None
    next_retry_at: datetime | None
    held_by: str | None
    cancel_requested_at: datetime | None
    worker: str | None
    error: Mapping[str, Any] | None
    created_at: datetime
    finished_at: datetime | None
    attempts_before: int
    """The attempts before an operator last started it again: its budget begins after them."""
    limited: bool
    """True if its pool has slots, and the task needs one to run."""

    @property
    def producer(self) -> Producer:
        return Producer(id=self.id, owner=Owner(self.org, self.project), attempt=self.attempt)

    def payload(self, slot: Slot | None, pins: Mapping[str, Any]) -> dict[str, Any]:
        """The task as `task-fetch` and `task-claim` answer it. Without the lease token: whoever
        only looks at a task must not be able to report for it. `pins` are the inputs and outputs
        that its current attempt was assigned."""
        return {
            "task_id": str(self.id),
            "status": self.status.value,
            "attempt": self.attempt,
            "max_attempts": self.max_attempts,
            "run_id": _text(self.run_id),
            "org_id": self.org,
            "project": self.project,
            "lease_expires_at": _instant(self.lease_until),
            "deadline": _instant(self.deadline_at),
            "timeout_s": self.timeout_s,
            "lease_s": self.lease_s,
            "pipeline": {"name": self.project, "version": self.pipeline_version},
            "asset": self.asset,
            "kind": self.kind,
            "config": dict(self.config),
            "trigger": {"kind": self.trigger.value, "event_id": _text(self.event_id)},
            "scope": self.scope.to_json(),
            "inputs": pins.get("inputs", []),
            "outputs": pins.get("outputs", []),
            "idempotency": {"producer_task_id": str(self.id), "dedupe_key": self.dedupe_key},
            "cancel_requested": self.cancel_requested_at is not None,
            "slot": None
            if slot is None
            else {"pool": slot.pool, "index": slot.index, "env": dict(slot.env)},
        }


def _text(found: UUID | None) -> str | None:
    return None if found is None else str(found)


def _instant(found: datetime | None) -> str | None:
    return None if found is None else found.isoformat()
