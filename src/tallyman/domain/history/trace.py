"""Traces: what a run changed, row by row, and the answers derived from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal, overload
from uuid import UUID

from tallyman.domain.pipeline.target import Target

BASELINE = 0
"""The seq under which rows of the input are recorded as loaded; no step has it."""

ROW_ID, DELETED, UPDATED_AT = "_row_id", "_deleted", "_updated_at"

Values = Mapping[str, Any]
"""Values by column, in column order."""


class ChangeType(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecord:
    """The change of one row by one step. An update holds only the columns that changed."""

    run_id: UUID
    operation_seq: int
    row_id: UUID
    change_type: ChangeType
    before: Values | None
    after: Values | None

    @property
    def diff(self) -> dict[str, dict[str, Any]]:
        """Show each changed column as {old, new}; for a new row, all columns."""
        if self.change_type is ChangeType.DELETED:
            return {DELETED: {"old": False, "new": True}}
        before = self.before or {}
        return {
            name: {"old": before.get(name), "new": value}
            for name, value in (self.after or {}).items()
        }

    def to_json(self) -> dict[str, object]:
        return _fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry:
    """One step in the history of a row: its changes, and the whole row after it."""

    operation_seq: int
    change_type: ChangeType
    full_state: Values
    diff: Mapping[str, Mapping[str, Any]]

    def to_json(self) -> dict[str, object]:
        return _fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """A step as it was in the run, even if the pipeline has changed since."""

    seq: int
    id: str
    kind: str
    text: str
    assigned: tuple[str, ...]
    renamed: Mapping[str, str]
    columns: tuple[str, ...]
    """All columns after the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    step: TraceStep
    complete: bool
    created: int = 0
    updated: int = 0
    deleted: int = 0
    baselines: int = 0
    """Rows of the input that no earlier step had touched."""

    @property
    def records(self) -> int:
        return self.created + self.updated + self.deleted

    def to_json(self) -> dict[str, object]:
        return {
            "seq": self.step.seq,
            "id": self.step.id,
            "kind": self.step.kind,
            "text": self.step.text,
            "complete": self.complete,
            "created": self.created,
            "updated": self.updated,
            "deleted": self.deleted,
            "baselines": self.baselines,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTrace:
    """Counts of what a run changed in one target."""

    target: Target
    steps: tuple[StepCounts, ...] = ()
    redacted: tuple[str, ...] = ()
    missing: str | None = None
    """The reason why there is no trace, if there is none."""

    def to_json(self) -> dict[str, object]:
        return {
            "asset": self.target.asset,
            "partition": self.target.partition,
            "traced": self.missing is None,
            "reason": self.missing,
            "redacted": list(self.redacted),
            "steps": [step.to_json() for step in self.steps],
        }


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """The reason for an empty answer. An empty answer is not an error."""

    code: Literal["RowNotFound", "RowNotYetCreated", "StepNotComplete", "RunCancelled"]
    message: str
    facts: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def to_json(self) -> dict[str, object]:
        return {"code": self.code, "message": self.message, **self.facts}


@dataclass(frozen=True, slots=True)
class RowHistory(Sequence[TraceEntry]):
    """The steps that touched a row, in order; `diagnostic` says why there are none."""

    entries: tuple[TraceEntry, ...]
    diagnostic: Diagnostic | None = None

    @overload
    def __getitem__(self, index: int) -> TraceEntry: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[TraceEntry, ...]: ...
    def __getitem__(self, index: int | slice) -> TraceEntry | tuple[TraceEntry, ...]:
        return self.entries[index]

    def __len__(self) -> int:
        return len(self.entries)


@dataclass(frozen=True, slots=True)
class RowAtStep:
    """A whole row as it was after a step, or the reason why there was none."""

    state: Values | None
    diagnostic: Diagnostic | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """One page of the changes of a step, ordered by row id."""

    records: tuple[TraceRecord, ...]
    next_after: UUID | None = None
    """The start of the next page; None on the last page."""
    diagnostic: Diagnostic | None = None

    def __iter__(self) -> Iterator[TraceRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A row that was found by values it had when it was loaded or created."""

    target: Target
    record: TraceRecord

    @property
    def row_id(self) -> UUID:
        return self.record.row_id

    def to_json(self) -> dict[str, object]:
        return {
            "asset": self.target.asset,
            "partition": self.target.partition,
            "row_id": str(self.row_id),
            "operation_seq": self.record.operation_seq,
            "state": plain(self.record.after),
        }


def _fields(value: TraceRecord | TraceEntry) -> dict[str, object]:
    return {each.name: plain(getattr(value, each.name)) for each in fields(value)}


def plain(value: object) -> Any:
    """Convert a value to JSON: decimals to text with their scale, dates and instants to ISO
    text.
    """
    if isinstance(value, Mapping):
        return {str(plain(name)): plain(held) for name, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(held) for held in value]
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
