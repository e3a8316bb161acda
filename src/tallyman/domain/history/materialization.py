"""Materializations: the result of one target in one run, its inputs, and its state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from tallyman.domain.history.options import RunParams
from tallyman.domain.history.run import RunIdentity, Status
from tallyman.domain.pipeline.target import Target
from tallyman.domain.version.dataset import Fragment
from tallyman.domain.version.owner import Owner

REJECTIONS_FRAGMENT = "rejections_fragment"
"""The key of a result's metadata that names the fragment with its rejections."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """One source, or one fragment of a dataset, as it was read. `id` is the materialization that
    made the fragment; None for a source or a table."""

    name: str
    partition: str | None
    digest: str
    id: UUID | None = None
    fragment: UUID | None = None
    project: str | None = None
    """The pipeline that produces it, if that is another one: then `name` is its producer there."""
    input: str | None = None
    """The name that the reader gives it; None if that is `name`."""


def dependency_hash(consumed: Iterable[Consumed]) -> str:
    """Compute a hash that is equal if the content read is equal, whichever run made it."""
    listed = sorted([_name(c), c.partition or "", c.digest] for c in consumed)
    return hashlib.sha256(json.dumps(listed, separators=(",", ":")).encode()).hexdigest()


def _name(one: Consumed) -> str:
    return f"{one.project}/{one.name} as {one.input}" if one.project else one.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialization:
    id: UUID
    target: Target
    run_id: UUID
    status: Status
    attempt: int = 0
    definition_hash: str | None = None
    dependency_hash: str | None = None
    content_digest: str | None = None
    location: str | None = None
    last_completed_operation: str | None = None
    error_message: str | None = None
    executor_node: str | None = None
    reused_id: UUID | None = None
    fragment_id: UUID | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    duration_ms: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TargetState:
    """How far one target of a run is."""

    target: Target
    status: Status
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A result, and the inputs it was made from."""

    consumed: tuple[Consumed, ...]
    digest: str
    location: str
    fragment: Fragment
    metadata: Mapping[str, Any]
    registered: tuple[Fragment, ...] = ()
    """Fragments of other datasets that are published with it."""


class RunMadeBy(StrEnum):
    """Who makes the targets of a run, or made them last."""

    PROCESS = "process"
    TASKS = "tasks"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run, as the registry stores it."""

    id: UUID
    name: str
    owner: Owner
    status: Status
    folder: str
    actor: str
    started_at: datetime
    params: RunParams = field(default_factory=RunParams)
    pins: Mapping[UUID, int] = field(default_factory=dict)
    """The version of each dataset that the run reads, and expects when it publishes."""
    executor: UUID | None = None
    executor_node: str | None = None
    lease_expired: bool = False
    cancel_requested_at: datetime | None = None
    completed_at: datetime | None = None
    removed_at: datetime | None = None
    removed_by: str | None = None

    @property
    def made_by(self) -> RunMadeBy:
        return RunMadeBy.TASKS if self.executor_node == RunMadeBy.TASKS else RunMadeBy.PROCESS

    @property
    def by_tasks(self) -> bool:
        """True if tasks make its targets now."""
        return self.status is Status.RUNNING and self.made_by is RunMadeBy.TASKS

    @property
    def identity(self) -> RunIdentity:
        return RunIdentity(self.name, str(self.id), self.started_at)
