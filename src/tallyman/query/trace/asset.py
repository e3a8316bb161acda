"""Query the trace of a run: the history of a row, a row at a step, all changes of a step.

DuckDB reads it from the run folder; neither Spark nor the database is needed.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Self
from uuid import UUID

from tallyman.domain.account.redaction import covers
from tallyman.domain.history.asked_row import AskedRow, asked_row
from tallyman.domain.history.run import Status
from tallyman.domain.history.trace import (
    Changes,
    ChangeType,
    Diagnostic,
    FoundRow,
    StepCounts,
    TargetTrace,
    TraceRecord,
)
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.duck import text as literal
from tallyman.engine.files.past_run import Run
from tallyman.engine.files.run_folder import TRACE
from tallyman.errors import (
    NotFound,
    NoTrace,
    RunNotFinished,
    StepOutOfRange,
    TraceCorrupt,
    UsageError,
)
from tallyman.query.trace.files import TraceFile, TraceFolder
from tallyman.query.trace.read import TraceReader
from tallyman.query.trace.row import TraceRow, not_complete
from tallyman.query.trace.segment_rows import Kind

UNCHANGING = 'none of its steps changes rows in place, or it sets trace="off"'

PAGE = 100
RECORDS: tuple[Kind, ...] = ("created", "updated", "deleted")


class Trace:
    """The changes that a finished run made."""

    def __init__(self, run: Run, *, canceled: bool = False) -> None:
        """`canceled` says so of a run that could not write a report."""
        if run.report is None and not canceled:
            raise RunNotFinished(run.run_id)
        self.run = run
        canceled = canceled or (run.report or {})["status"] == Status.CANCELED
        self._targets = TracedTargets(run, canceled=canceled)
        self._reader = TraceReader()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()

    @property
    def diagnostic(self) -> Diagnostic | None:
        """Why every answer is empty: the trace of a canceled run is not kept."""
        if not self._targets.all_discarded:
            return None
        message = f"run {self.run.run_id} was canceled, and its trace was discarded"
        return Diagnostic("RunCancelled", message)

    # ---- questions about one row ---------------------------------------------------------

    def row(
        self, row_id: str | UUID, asset: str | None = None, partition: str | None = None
    ) -> TraceRow:
        """Find a row in any asset of the run, or only in the named one."""
        folders = self._folders(asset, partition)
        return TraceRow(row_uuid(row_id), self._reader, folders, self.diagnostic)

    def find(
        self, values: Mapping[str, object], asset: str | None = None, *, limit: int = PAGE
    ) -> list[UUID]:
        """Return the ids of rows that started with these values; see `matches`."""
        return [found.row_id for found in self.matches(values, asset, limit=limit)]

    def matches(
        self,
        values: Mapping[str, object],
        asset: str | None = None,
        partition: str | None = None,
        *,
        limit: int = PAGE,
    ) -> list[FoundRow]:
        """Find rows by values they had when they were loaded or created, compared as text; None and
        `null` are NULL, `'null'` is the text. Only rows that the run changed or created are in its
        trace."""
        folders = self._folders(asset, partition)
        row = asked_row(values)
        _check_columns(row, folders)
        found: list[FoundRow] = []
        for folder in folders:
            for files in _groups(folder, "baseline", "created"):
                first = files[0]
                columns = first.layout.columns(first.kind)
                if set(row) <= set(columns) and len(found) < limit:
                    left = limit - len(found)
                    records = self._reader.records(files, _condition(row, first), limit=left)
                    found += [FoundRow(folder.target, record) for record in records]
        return found

    # ---- questions about steps -----------------------------------------------------------

    def changes(
        self,
        asset: str,
        step: int,
        change_type: str | None = None,
        *,
        partition: str | None = None,
        limit: int = PAGE,
        after: str | UUID | None = None,
    ) -> Changes:
        """Return one page of a step's changes, in the order of row ids."""
        kinds = RECORDS if change_type is None else (_kind(change_type),)
        if limit < 1:
            raise UsageError(f"limit must be 1 or more, not {limit}")
        folders = self._folders(asset, partition)
        if self.diagnostic:
            return Changes((), diagnostic=self.diagnostic)
        valid = sorted({seq for folder in folders for seq in folder.seqs})
        if step not in valid:
            raise StepOutOfRange(asset, step, valid)
        if not any(step in folder.files for folder in folders):
            return Changes((), diagnostic=not_complete(step, folders))
        beyond = row_uuid(after) if after else None
        pages = [
            self._reader.records(files, condition, limit=limit + 1)
            for folder in folders
            for files in _groups(folder, *kinds, seq=step)
            if (condition := files[0].layout.is_after(beyond) if beyond else "true") is not None
        ]
        merged = heapq.merge(*pages, key=lambda record: record.row_id.int)
        found = list(islice(merged, limit + 1))
        _check_once(found, asset)
        more = found[limit - 1].row_id if len(found) > limit else None
        return Changes(tuple(found[:limit]), more)

    def records(
        self, asset: str | None = None, partition: str | None = None
    ) -> Iterator[TraceRecord]:
        """Yield all records, baselines first, then step by step; files are read as needed."""
        for folder in self._folders(asset, partition):
            for files in _groups(folder, "baseline"):
                yield from self._reader.records(files)
            for files in _groups(folder, *RECORDS):
                yield from self._reader.records(files)

    def steps(self, asset: str | None = None, partition: str | None = None) -> list[StepCounts]:
        """List the steps of one target in order, with the number of rows each changed."""
        return [] if self.diagnostic else self._counted(self._targets.one(asset, partition))

    def overview(self, asset: str | None = None, partition: str | None = None) -> list[TargetTrace]:
        """List every target of the run, including those without a trace."""
        if self.diagnostic:
            return []
        found = []
        for target in self._targets.every(asset, partition):
            folder = self._targets.folder(target)
            if folder is None:
                missing = self._targets.missing(target)
                found.append(TargetTrace(target=target, missing=missing))
            else:
                steps = tuple(self._counted(folder))
                found.append(TargetTrace(target=target, steps=steps, redacted=folder.redacted))
        return found

    def _counted(self, folder: TraceFolder) -> list[StepCounts]:
        counts = self._reader.counts(folder.of_kinds())
        return [
            StepCounts(
                step=step,
                complete=step.seq in folder.files,
                created=counts[step.seq, "created"],
                updated=counts[step.seq, "updated"],
                deleted=counts[step.seq, "deleted"],
                baselines=counts[step.seq, "baseline"],
            )
            for step in folder.steps
        ]

    def _folders(self, asset: str | None, partition: str | None) -> list[TraceFolder]:
        return [] if self.diagnostic else self._targets.folders(asset, partition)


def row_uuid(given: str | UUID) -> UUID:
    if isinstance(given, UUID):
        return given
    try:
        return UUID(given)
    except ValueError:
        raise UsageError(
            f"{given!r} is not a row id: it looks like 019c16a0-7c00-7000-8f0e-0123456789ab; "
            "--key column=value finds one"
        ) from None


def _kind(change_type: str) -> Kind:
    if change_type not in tuple(ChangeType):
        raise UsageError(f"a change type is {', '.join(ChangeType)}, not {change_type!r}")
    return ChangeType(change_type).value


def _groups(folder: TraceFolder, *kinds: Kind, seq: int | None = None) -> list[list[TraceFile]]:
    """Group files that have the same columns, in the order of the steps."""
    found: dict[tuple[int, Kind, int], list[TraceFile]] = {}
    for kind in kinds:
        for file in folder.of_kinds(kind, seq=seq):
            found.setdefault((file.step.seq, kind, id(file.layout)), []).append(file)
    order = [step.seq for step in folder.steps]
    return [found[key] for key in sorted(found, key=lambda key: order.index(key[0]))]


def _check_columns(values: AskedRow, folders: list[TraceFolder]) -> None:
    if not values:
        raise UsageError("give at least one column and its value")
    every = [folder.loaded for folder in folders]
    every += [step.columns for folder in folders for step in folder.steps]
    known = list(dict.fromkeys(name for columns in every for name in columns))
    hidden = {name for folder in folders for name in folder.redacted}
    for name in values:
        if folders and name not in known:
            there = ", ".join(known)
            raise UsageError(f"there is no column {name!r} to search by; there are {there}")
        if covers(hidden, name):
            raise UsageError(f"{name} is redacted in this trace: search by another column")


def _condition(values: AskedRow, file: TraceFile) -> str:
    conditions = []
    for name, value in values.items():
        held = file.layout.value(file.kind, name)
        if value is None:
            conditions.append(f"{held} IS NULL")
        else:
            shown, in_hex = f"CAST({held} AS VARCHAR)", f"TRY(unhex({literal(value)}))"
            of_bytes = f"typeof({held}) = 'BLOB' AND {shown} = CAST({in_hex} AS VARCHAR)"
            conditions.append(f"({shown} = {literal(value)} OR ({of_bytes}))")
    return " AND ".join(conditions)


def _check_once(records: list[TraceRecord], asset: str) -> None:
    for one, other in pairwise(records):
        if one.row_id == other.row_id:
            reason = f"step {one.operation_seq} has two records of it"
            raise TraceCorrupt(f"{asset}, row {one.row_id}", reason)


class TracedTargets:
    def __init__(self, run: Run, *, canceled: bool) -> None:
        self.run, self.canceled = run, canceled
        self._opened: dict[Target, TraceFolder | None] = {}

    def every(self, asset: str | None = None, partition: str | None = None) -> list[Target]:
        """List the run's targets; a day partition may be given with or without `d:`."""
        self.run.places(asset)  # refuses an unknown asset and suggests the nearest
        listed = [one.target for one in self.run.manifest.targets]
        keys = (partition, f"d:{partition}")
        found = [
            target
            for target in listed
            if asset in (None, target.asset) and (partition is None or target.partition in keys)
        ]
        if not found:
            raise NotFound(f"partition of {asset or 'any asset'} in run", f"{partition}")
        return found

    def folders(self, asset: str | None = None, partition: str | None = None) -> list[TraceFolder]:
        """Open at least one trace, or raise NoTrace."""
        targets = self.every(asset, partition)
        found = [folder for target in targets if (folder := self.folder(target)) is not None]
        if not found and len(targets) == 1:
            raise NoTrace(self.run.run_id, str(targets[0]), self.missing(targets[0]))
        if not found:
            reasons = sorted({self.missing(target) for target in targets})
            raise NoTrace(self.run.run_id, asset or "any asset", "; ".join(reasons))
        return found

    def one(self, asset: str | None, partition: str | None) -> TraceFolder:
        found = self.folders(asset, partition)
        if len(found) > 1:
            known = ", ".join(str(folder.target) for folder in found[:5])
            raise UsageError(f"{len(found)} traces match: {known}; give --asset and --partition")
        return found[0]

    def folder(self, target: Target) -> TraceFolder | None:
        if target not in self._opened:
            place = self._places.get(target)
            shown = os.path.relpath(place, self.run.folder) if place else ""
            vouched = self.run.vouched
            opened = TraceFolder.open(target, place, shown, vouched) if place else None
            self._opened[target] = opened
        return self._opened[target]

    def missing(self, target: Target) -> str:
        """Explain why the target has no trace."""
        status = next(
            (
                Status(made["status"])
                for made in (self.run.report or {}).get("assets", ())
                if (made["name"], made["partition"]) == (target.asset, target.partition)
            ),
            Status.SUCCESS,
        )
        if self.canceled and status not in (Status.PENDING, Status.SKIPPED):
            return "the run was canceled, and its trace was discarded"
        if status is Status.PENDING:
            return "it was not run"
        if status is Status.SKIPPED and target not in self._places:
            return "it was unchanged, and the folder of the run that made it is missing"
        if not status.good:
            return f"it is {status.value}, and none of its steps had started"
        return UNCHANGING

    @cached_property
    def all_discarded(self) -> bool:
        """True if the run was canceled and left no trace. One that was published first stays."""
        own = [place for place in self._places.values() if self.run.folder in place.parents]
        return self.canceled and not any((place / TRACE).is_dir() for place in own)

    @cached_property
    def _places(self) -> dict[Target, Path]:
        return self.run.places()
