"""Commits: one atomic move of one or many datasets to new versions, by an actor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from tallyman.domain.version.dataset import Fragment
from tallyman.domain.version.owner import Owner


class Operation(StrEnum):
    """The effect of a commit on one dataset."""

    REPLACE = "replace"
    APPEND = "append"
    MUTATE = "mutate"
    RESTORE = "restore"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change that a commit makes to one dataset, and its preconditions.

    `expected` is strict: the newest version must be this one. Otherwise the replaced scopes must be
    unchanged since version `read_at`; changes of other scopes do not matter.
    """

    dataset_id: UUID
    operation: Operation
    adds: tuple[Fragment, ...] = ()
    removes: frozenset[UUID] = frozenset()
    scopes: frozenset[str | None] = frozenset()
    """The partitions that the change replaces or, if it appends, adds to. None stands for the whole
    of a dataset without partitions.
    """
    whole: bool = False
    """True if all existing content is replaced."""
    expected: int | None = None
    read_at: int = 0
    restores: int | None = None
    joins: bool = False
    """True if the rows are added to the scopes, and results made from these become stale."""
    even_if_equal: bool = False
    """True if equal content is replaced too, because it was made again on purpose."""

    def removed(self, live: Mapping[UUID, Fragment]) -> set[UUID]:
        if self.whole:
            return set(live)
        replaced = frozenset() if self.operation is Operation.APPEND else self.scopes
        return {f.id for f in live.values() if f.id in self.removes or f.partition in replaced}


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """All changes that become current together."""

    key: UUID
    kind: str
    actor: str
    owner: Owner
    changes: tuple[Change, ...]
    reads: Mapping[UUID, int] = field(default_factory=dict)
    """Datasets that do not change but must still be at this version."""
    run_id: UUID | None = None
    message: str | None = None
    pipeline_version: str | None = None
    pipeline_before: str | None = None
    """The pipeline version that was active when the work began."""
    pins: Mapping[UUID, int] | None = None
    """The versions that a run read; the commit checks what was replaced since."""
    task: UUID | None = None
    """The task that publishes; its events have its id as their producer, and its attempt."""
    attempt: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Move:
    """The move of one dataset in one commit."""

    dataset: str
    ordinal: int
    operation: str
    rows: int
    rows_before: int = 0
    restores: int | None = None

    def __str__(self) -> str:
        """Show the move: `daily_revenue v8 (= v6, was v7)`."""
        notes = []
        if self.operation == Operation.REMOVE:
            notes.append("removed")
        if self.operation == Operation.APPEND:
            more = self.rows - self.rows_before
            notes.append(f"{more:,} row{'s' if more != 1 else ''} more")
        if self.restores:
            notes.append(f"= v{self.restores}")
        if self.ordinal > 1:
            notes.append(f"was v{self.ordinal - 1}")
        listed = f" ({', '.join(notes)})" if notes else ""
        return f"{self.dataset} v{self.ordinal}{listed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    id: UUID
    seq: int
    kind: str
    actor: str
    owner: Owner
    created_at: datetime
    parent: UUID | None = None
    run_id: UUID | None = None
    message: str | None = None
    pipeline_version: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    moves: tuple[Move, ...] = ()
