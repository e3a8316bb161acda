"""The trace files of one target: its steps, and the files of each complete step."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from tallyman.domain.account.ledger_json import files_listed
from tallyman.domain.history.trace import TraceStep
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.listing import hash_once
from tallyman.engine.files.run_folder import LEDGER, TRACE
from tallyman.engine.files.vouched import Vouched
from tallyman.engine.working.trace_layout import FORMAT, STEPS
from tallyman.errors import TraceCorrupt
from tallyman.query.trace.segment_rows import KINDS, Kind, SegmentRows

STEP = re.compile(r"operation_seq=([0-9]+)")
ROWS = re.compile(r"(rows-[0-9]{2,})(?:-([0-9]{5})\.parquet|\.json)")


@dataclass(frozen=True, slots=True)
class TraceFile:
    """The records of one step and kind in a Parquet file of a trace. The same file may have records
    of other steps and kinds too.
    """

    folder: TraceFolder
    step: TraceStep
    kind: Kind
    path: str
    layout: SegmentRows

    @property
    def shown(self) -> str:
        """The path relative to the run folder: a message names no machine path."""
        folder, name = os.path.split(self.path)
        return f"{self.folder.shown}/{os.path.basename(folder)}/{name}"

    @property
    def condition(self) -> str:
        """The SQL that is true for its rows in the file."""
        return self.layout.condition(self.kind, self.step.seq)

    @property
    def recorded(self) -> str | None:
        """Its sha256 when the run ended; None if the ledger does not list it."""
        return self.folder.recorded.get(self.path)


def check(files: Sequence[TraceFile]) -> None:
    """Raise TraceCorrupt for the first file that differs from what the run wrote."""
    known = [file for file in files if file.recorded]
    try:
        hashes = hash_once([file.path for file in known])
    except OSError as error:
        named = next((file.shown for file in known if file.path == error.filename), "a file")
        raise TraceCorrupt(named, f"it cannot be read: {error.strerror}") from error
    for file, digest in zip(known, hashes, strict=True):
        if digest != file.recorded:
            reason = f"sha256 {digest[:12]}…, expected {str(file.recorded)[:12]}…"
            raise TraceCorrupt(file.shown, reason)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TraceFolder:
    target: Target
    shown: str
    run_id: UUID
    timestamp: datetime
    """When the run began: the only timestamp in the trace of rows."""
    loaded: tuple[str, ...]
    """The columns of rows as they were loaded."""
    steps: tuple[TraceStep, ...]
    redacted: tuple[str, ...]
    files: dict[int, tuple[TraceFile, ...]]
    """The files of each complete step; a complete step may have changed nothing."""
    recorded: Mapping[str, str]
    """The recorded sha256 by path."""

    @classmethod
    def open(cls, target: Target, place: Path, shown: str, vouched: Vouched) -> TraceFolder | None:
        """Open a target's trace; None if it was made without a trace."""
        folder, shown = place / TRACE, f"{shown}/{TRACE}"
        recorded = _recorded(place, vouched)
        if not folder.is_dir() and not recorded:
            return None
        steps = _read_steps(folder / STEPS, f"{shown}/{STEPS}", recorded)
        opened = cls(target=target, shown=shown, **steps, files={}, recorded=recorded)
        opened.files.update(opened.in_segments(folder, opened.complete(folder)))
        opened.check_ledger(folder)
        return opened

    def complete(self, folder: Path) -> list[TraceStep]:
        """List the complete steps. Steps complete in order, so a gap means that a step was lost."""
        names = (STEP.fullmatch(entry.name) for entry in os.scandir(folder))
        there = {int(match[1]) for match in names if match}
        known = [step for step in self.steps if step.seq in there]
        if unknown := there - {step.seq for step in known}:
            raise TraceCorrupt(self.shown, f"{STEPS} does not list step {min(unknown)}")
        for step, expected in zip(known, self.steps, strict=False):
            if step.seq != expected.seq:
                reason = f"step {step.seq} is complete and step {expected.seq} before it is not"
                raise TraceCorrupt(self.shown, reason)
        return known

    def in_segments(
        self, folder: Path, complete: Sequence[TraceStep]
    ) -> dict[int, tuple[TraceFile, ...]]:
        """List the files: the folder of a segment's first step has those of all its
        steps. Records of steps that are not complete are not listed.
        """
        found: dict[int, list[TraceFile]] = {step.seq: [] for step in complete}
        for step in complete:
            for layout, paths in self._segments(folder / f"operation_seq={step.seq}"):
                for one in complete:
                    for kind in layout.kinds(one.seq):
                        files = [TraceFile(self, one, kind, path, layout) for path in paths]
                        found[one.seq] += files
        return {seq: tuple(files) for seq, files in found.items()}

    def _segments(self, folder: Path) -> Iterator[tuple[SegmentRows, list[str]]]:
        """Read the layouts in the folder of a step, each with its files."""
        shown, groups = f"{self.shown}/{folder.name}", dict[str, list[str]]()
        for name in sorted(os.listdir(folder)):
            match = ROWS.fullmatch(name)
            if match is None:
                if name.startswith((".", "_")) or not name.endswith(".parquet"):
                    continue  # checksums and marks of other programs
                raise TraceCorrupt(f"{shown}/{name}", "unexpected file in a trace")
            group = groups.setdefault(match[1], [])
            if match[2] is not None:
                if int(match[2]) != len(group):
                    lost = f"{match[1]}-{len(group):05d}.parquet"
                    raise TraceCorrupt(f"{shown}/{lost}", "the file is missing")
                group.append(os.path.abspath(folder / name))
        for name, paths in groups.items():
            place = f"{shown}/{name}.json"
            content = _read_json(folder / f"{name}.json", place, self.recorded)
            try:
                yield SegmentRows(content), paths
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise TraceCorrupt(place, f"its content is not valid: {error!r}") from error

    def check_ledger(self, folder: Path) -> None:
        """Check the files against the ledger; the ledger of a failed asset may list none."""
        for path in self.recorded:
            if not os.path.isfile(path):
                name = os.path.relpath(path, folder)
                raise TraceCorrupt(f"{self.shown}/{name}", "the file is missing")
        for one in (file for files in self.files.values() for file in files):
            if self.recorded and one.recorded is None:
                raise TraceCorrupt(one.shown, "the run did not write this file")

    def of_kinds(self, *kinds: Kind, seq: int | None = None) -> list[TraceFile]:
        return [
            file
            for number, files in self.files.items()
            if seq in (None, number)
            for file in files
            if file.kind in (kinds or KINDS)
        ]

    @property
    def seqs(self) -> tuple[int, ...]:
        return tuple(step.seq for step in self.steps)


def _recorded(place: Path, vouched: Vouched) -> dict[str, str]:
    """Read the recorded hashes from the ledger."""
    names = files_listed(vouched.readable(place / LEDGER)) or {}
    return {
        os.path.abspath(place / name): str(digest)
        for name, digest in names.items()
        if name.startswith(f"{TRACE}/")
    }


def _read_json(path: Path, shown: str, recorded: Mapping[str, str]) -> Any:
    try:
        content = path.read_bytes()
        expected = recorded.get(os.path.abspath(path))
        if expected and hashlib.sha256(content).hexdigest() != expected:
            raise TraceCorrupt(shown, f"it was changed since the run: expected {expected[:12]}…")
        return json.loads(content)
    except FileNotFoundError:
        raise TraceCorrupt(shown, "the file is missing") from None
    except (OSError, ValueError) as error:
        raise TraceCorrupt(shown, f"it cannot be read: {error}") from error


def _read_steps(path: Path, shown: str, recorded: Mapping[str, str]) -> dict[str, Any]:
    found = _read_json(path, shown, recorded)
    try:
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']}, expected {FORMAT}")
        return {
            "run_id": UUID(found["openlineage_run_id"]),
            "timestamp": datetime.fromisoformat(found["timestamp"]),
            "loaded": tuple(column["name"] for column in found["loaded"]),
            "steps": tuple(_step(step) for step in found["steps"]),
            "redacted": tuple(found["redacted"]),
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TraceCorrupt(shown, f"its content is not valid: {error!r}") from error


def _step(found: Mapping[str, Any]) -> TraceStep:
    return TraceStep(
        seq=int(found["seq"]),
        id=str(found["id"]),
        kind=str(found["kind"]),
        text=str(found["text"]),
        assigned=tuple(found["assigned"]),
        renamed=dict(found["renamed"]),
        columns=tuple(found["columns"]),
    )
