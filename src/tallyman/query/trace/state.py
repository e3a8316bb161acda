"""Reconstruct all states of one row from its trace records, or raise TraceCorrupt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

from tallyman.domain.history.trace import (
    BASELINE,
    DELETED,
    ROW_ID,
    UPDATED_AT,
    ChangeType,
    TraceEntry,
    TraceRecord,
    TraceStep,
)
from tallyman.errors import TraceCorrupt
from tallyman.query.trace.read import Found

State = dict[str, Any]


class Life:
    """The history of a row in one run, checked for contradictions."""

    def __init__(
        self, where: str, steps: Sequence[TraceStep], started_at: datetime, found: Sequence[Found]
    ) -> None:
        self.where, self.steps, self.started_at = where, steps, started_at
        ordered = sorted(found, key=lambda one: one.record.operation_seq)
        self.records = [one.record for one in ordered]
        self.row_id: UUID = self.records[0].row_id
        self._check(ordered)

    @property
    def created_at_seq(self) -> int:
        return self.records[0].operation_seq

    def state_at(self, seq: int) -> State | None:
        """Return the row after a step; None if it did not exist yet."""
        for step, _, state in self._states():
            if step.seq == seq:
                return state
        return None

    def entries(self, include_baseline: bool) -> Iterator[TraceEntry]:
        first = self.records[0]
        if include_baseline and first.operation_seq == BASELINE:
            assert first.after is not None
            yield _entry(first, self._with_system(dict(first.after), ended=False, changed=False))
        for _, record, state in self._states():
            if record is not None and state is not None:
                yield _entry(record, state)

    def _states(self) -> Iterator[tuple[TraceStep, TraceRecord | None, State | None]]:
        by_seq = {record.operation_seq: record for record in self.records}
        first = by_seq.get(BASELINE)
        state: State | None = dict(first.after or {}) if first else None
        ended = changed = False
        for step in self.steps:
            record = by_seq.get(step.seq)
            if record is not None and record.change_type is ChangeType.CREATED:
                state = dict(record.after or {})
            elif state is not None:
                state = _reshaped(state, step)
                if record is not None:
                    state |= record.after or {}
                    ended, changed = ended or record.after is None, True
            whole = None if state is None else self._with_system(state, ended, changed)
            yield step, record, whole

    def _with_system(self, state: State, ended: bool, changed: bool) -> State:
        at = self.started_at if changed else None
        return {ROW_ID: self.row_id, **state, DELETED: ended, UPDATED_AT: at}

    # ---- contradictions ------------------------------------------------------------------

    def _check(self, stored: Sequence[Found]) -> None:
        created = [s.seq for s in stored if s.record.change_type is ChangeType.CREATED]
        if len(created) > 1:
            self._wrong(f"it was created {len(created)} times, in steps {_listed(created)}")
        for one, following in pairwise(stored):
            if one.record.operation_seq == following.record.operation_seq:
                self._wrong(f"step {one.seq} has two records of it")
            if one.record.change_type is ChangeType.DELETED:
                self._wrong(f"step {one.seq} deleted it and step {following.seq} has a record")
        if not created:
            self._wrong(f"step {stored[0].seq} changed it, but its values before are not recorded")
        if stored[0].record.change_type is not ChangeType.CREATED:
            self._wrong(f"step {stored[0].seq} changed it before step {created[0]} created it")
        first = stored[0]
        if first.record.operation_seq == BASELINE and first.seq not in {s.seq for s in stored[1:2]}:
            self._wrong(f"step {first.seq} is recorded as the first that changed it, but is not")

    def _wrong(self, reason: str) -> None:
        raise TraceCorrupt(f"{self.where}, row {self.row_id}", reason)


def _reshaped(state: State, step: TraceStep) -> State:
    """Apply the step's columns: renamed, dropped, or new with NULL."""
    renamed = {step.renamed.get(name, name): value for name, value in state.items()}
    return {name: renamed.get(name) for name in step.columns}


def _entry(record: TraceRecord, state: State) -> TraceEntry:
    return TraceEntry(
        operation_seq=record.operation_seq,
        change_type=record.change_type,
        full_state=state,
        diff=record.diff,
    )


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
