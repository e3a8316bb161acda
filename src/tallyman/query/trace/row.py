"""One row in a run: its history, and its values at any step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any
from uuid import UUID

from tallyman.domain.history.trace import (
    BASELINE,
    DELETED,
    ROW_ID,
    UPDATED_AT,
    ChangeType,
    Diagnostic,
    RowAtStep,
    RowHistory,
    TraceEntry,
    TraceRecord,
    TraceStep,
)
from tallyman.domain.pipeline.target import Target
from tallyman.errors import StepOutOfRange, TraceCorrupt, UsageError
from tallyman.query.trace.files import TraceFolder
from tallyman.query.trace.read import Found, TraceReader

State = dict[str, Any]


class TraceRow:
    """A row of a run. Its records are read on first use."""

    def __init__(
        self,
        row_id: UUID,
        reader: TraceReader,
        folders: Sequence[TraceFolder],
        nothing: Diagnostic | None = None,
    ) -> None:
        self.row_id = row_id
        self._reader, self._folders, self._nothing = reader, folders, nothing

    @property
    def target(self) -> Target | None:
        """The asset and partition of the row; None if it has no record."""
        return self._found[0].target if self._found else None

    @property
    def steps(self) -> tuple[int, ...]:
        """The numbers of the steps that `at_step` accepts."""
        folders = [self._found[0]] if self._found else self._folders
        return tuple(sorted({seq for folder in folders for seq in folder.seqs}))

    @property
    def described(self) -> tuple[TraceStep, ...]:
        """The steps of its asset, as they were in the run."""
        return self._found[0].steps if self._found else ()

    def history(self, include_baseline: bool = False) -> RowHistory:
        """List every step that changed the row; with the baseline, also how it was loaded, as step
        0."""
        if self._nothing or not self._found:
            return RowHistory((), self._nothing or self._not_found())
        return RowHistory(tuple(self._found[1].entries(include_baseline)))

    def at_step(self, step: int) -> RowAtStep:
        """Return the whole row after a step, whether the step changed it or not. StepOutOfRange
        lists the valid steps."""
        if self._nothing:
            return RowAtStep(None, self._nothing)
        if step not in self.steps:
            raise StepOutOfRange(self._scope(), step, self.steps)
        if not self._found:
            return RowAtStep(None, self._not_found())
        folder, life = self._found
        if step not in folder.files:
            return RowAtStep(None, not_complete(step, [folder]))
        state = life.state_at(step)
        return RowAtStep(state, None if state else _not_yet(life, step))

    # ---- lookup --------------------------------------------------------------------------

    @cached_property
    def _found(self) -> tuple[TraceFolder, Life] | None:
        files = [file for folder in self._folders for file in folder.of_kinds()]
        found = self._reader.of_row(files, self.row_id)
        folders = {str(one.file.folder.target): one.file.folder for one in found}
        if len(folders) > 1:
            known = ", ".join(sorted(folders))
            raise UsageError(f"row {self.row_id} is in {known}: choose one asset")
        if not folders:
            return None
        folder = next(iter(folders.values()))
        return folder, Life(folder, found)

    def _not_found(self) -> Diagnostic:
        return Diagnostic(
            "RowNotFound",
            f"row {self.row_id} of {self._scope()} was never changed by this run, or does not "
            "exist",
            {"row_id": str(self.row_id)},
        )

    def _scope(self) -> str:
        if self._found:
            return str(self._found[0].target)
        return ", ".join(str(folder.target) for folder in self._folders[:5])


def not_complete(step: int, folders: Sequence[TraceFolder]) -> Diagnostic:
    last = max((seq for folder in folders for seq in folder.files), default=None)
    done = f"the last complete one is {last}" if last is not None else "none was"
    return Diagnostic(
        "StepNotComplete",
        f"the run ended before step {step} was complete; {done}",
        {"last_completed_operation": last},
    )


def _not_yet(life: Life, step: int) -> Diagnostic:
    created = life.created_at_seq
    return Diagnostic(
        "RowNotYetCreated",
        f"there was no row {life.row_id} at step {step}: step {created} created it",
        {"created_at_seq": created},
    )


class Life:
    """The history of a row in one run, checked for contradictions."""

    def __init__(self, folder: TraceFolder, found: Sequence[Found]) -> None:
        self.where, self.steps, self.started_at = folder.shown, folder.steps, folder.timestamp
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
