"""Events: this dataset has new content in this scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from tallyman.domain.codec import of_plain, to_plain
from tallyman.domain.version.owner import Owner
from tallyman.errors import UsageError

NAMESPACE = UUID("5a3f6f0e-0f5c-5b7e-9c53-2f0b7d1c6a19")
LONGEST = 1024
"""The most characters of a partition key or cursor: each is part of an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which part of a dataset has changed: all of it, a partition, a cursor, or a range of a
    cursor with inclusive ends."""

    partition_key: str | None = None
    cursor: str | None = None
    start: int | None = None
    end: int | None = None

    def __post_init__(self) -> None:
        for text in (self.partition_key, self.cursor):
            if text is not None and not (0 < len(text) <= LONGEST and text.isprintable()):
                expected = f"1 to {LONGEST} printable characters"
                raise UsageError(f"event: a partition or cursor has {expected}")
        if (self.start is None) != (self.end is None):
            raise UsageError("event: a range has a start and an end")
        if self.start is not None and self.end is not None and self.start > self.end:
            raise UsageError(f"event: the range ends ({self.end}) before it starts ({self.start})")
        if self.cursor is not None and (self.partition_key is not None or self.start is not None):
            raise UsageError("event: a scope is a partition, a cursor or a range, not two of them")

    @property
    def text(self) -> str:
        """The scope as one text: equal scopes have equal texts."""
        if self.start is not None:
            return f"r:{self.start}-{self.end}"
        if self.cursor is not None:
            return f"c:{self.cursor}"
        return "w" if self.partition_key is None else f"p:{self.partition_key}"

    def to_json(self) -> dict[str, Any]:
        return to_plain(self)

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Scope:
        return of_plain(cls, found)


WHOLE = Scope()


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """Who emits events: a task, or a commit that no task made."""

    id: UUID
    owner: Owner
    attempt: int = 0
    """The attempt of the task; 0 for a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change that a producer reports: dataset, version with the content, and scope."""

    dataset: UUID
    version: UUID | None = None
    scope: Scope = WHOLE

    def id(self, producer: UUID) -> UUID:
        """Derive the id: another attempt of the same task emits the same event, not a new one."""
        return uuid5(NAMESPACE, f"{producer}/{self.dataset}/{self.scope.text}")

    def to_json(self, producer: UUID) -> dict[str, Any]:
        return {
            "event_id": str(self.id(producer)),
            "dataset_uuid": str(self.dataset),
            "dataset_version": str(self.version) if self.version else None,
            **self.scope.to_json(),
        }
