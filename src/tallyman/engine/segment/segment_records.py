"""Records of complete segments: an attempt that is resumed reuses them instead of evaluating again.

A record lists every file of its segment with a hash, and what the rows were made from. It is
written after the segment; a segment without a record is not complete.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tallyman.domain.codec import to_plain
from tallyman.domain.definition.canonical_json import canonical_hash
from tallyman.engine.files.listing import hash_files
from tallyman.engine.files.run_folder import SEGMENT, write_text
from tallyman.engine.segment.stage import SegmentFolder, Stage
from tallyman.errors import InputChanged

FOLDER = "folder"
LINK = "link"
"""Stand in for the hash of what is not a file. A link is never written, so it never matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRecord:
    attempt: int
    """The attempt that evaluated the segment."""
    step: str | None
    """The last step whose effect is in the files."""
    made_from: Mapping[str, str]
    files: Mapping[str, str]
    warnings: Sequence[Mapping[str, Any]]
    """Count and example of each rule that was watched while the segment was written."""

    def to_text(self) -> str:
        content = to_plain(self)
        return json.dumps(content | {"hash": canonical_hash(content)}, indent=2) + "\n"

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read a record; ValueError if any of it was changed."""
        content = json.loads(text)
        if not isinstance(content, dict) or content.pop("hash", None) != canonical_hash(content):
            raise ValueError("not a record as it was written")
        return cls(**content)


@dataclass
class SegmentRecords:
    """The records of one attempt. `made_from` has hashes of everything that rows depend on; if it
    is empty, nothing is recorded or reused.
    """

    folder: Path
    made_from: Mapping[str, str]
    attempt: int
    pool: ThreadPoolExecutor
    check_inputs: Callable[[], None]
    """Raise InputChanged if an input changed since it was hashed."""
    reused: dict[str, SegmentRecord] = field(default_factory=dict)
    """The segments of earlier attempts that are used, by path."""
    problem: str | None = None
    """Why no more of them are."""
    _writing: dict[str, Future[None]] = field(default_factory=dict)

    def find(self) -> None:
        """Check the segments that an earlier attempt left, in order. Remove the first one that
        cannot be reused, and all after it.
        """
        number = 1
        while self.made_from and (path := self._path(number)) and _record_of(path).exists():
            found = self._intact(path)
            if isinstance(found, str):
                self.problem = f"segment {number} is made again: {found}"
                break
            self.reused[path] = found
            number += 1
        used = {Path(path).name for path in self.reused}
        for left in self.folder.glob(f"{SEGMENT}*"):
            if left.name.removesuffix(".json") not in used:
                whole = left.is_dir() and not left.is_symlink()
                shutil.rmtree(left) if whole else left.unlink()

    def summary(self) -> str | None:
        """Say which segments were reused, and why no more; None if there was nothing to reuse."""
        if not self.reused:
            return self.problem
        *_, last = self.reused.values()
        which = "segment 1" if len(self.reused) == 1 else f"segments 1 to {len(self.reused)}"
        attempts = sorted({str(record.attempt) for record in self.reused.values()})
        text = f"reused {which} of attempt {' and '.join(attempts)}"
        text += f", up to step {last.step}" if last.step else ""
        return f"{text}; {self.problem}" if self.problem else text

    def next(self, number: int) -> SegmentFolder:
        path = self._path(number)
        return SegmentFolder(path, complete=path in self.reused)

    def add(self, stage: Stage, step: str | None) -> None:
        """Record a segment that was just written, in the background; of a reused one, recall what
        was counted while it was written.
        """
        if (known := self.reused.get(stage.path)) is not None:
            for watched, found in zip(stage.watched, known.warnings, strict=True):
                watched.found.update(found)
        elif self.made_from:
            self._writing[stage.path] = self.pool.submit(self._write, stage, step)

    def release(self, stage: Stage) -> None:
        """Remove the record of a segment, because its files are about to be moved."""
        if (writing := self._writing.get(stage.path)) is not None:
            writing.result()
        _record_of(stage.path).unlink(missing_ok=True)

    def _path(self, number: int) -> str:
        return str(self.folder / f"{SEGMENT}{number}")

    def _write(self, stage: Stage, step: str | None) -> None:
        # A segment without a record is only evaluated again: the run itself does not need it.
        with contextlib.suppress(InputChanged, OSError):
            files = _content(Path(stage.path))
            self.check_inputs()
            record = SegmentRecord(
                attempt=self.attempt,
                step=step,
                made_from=self.made_from,
                files=files,
                warnings=[watched.found for watched in stage.watched],
            )
            write_text(_record_of(stage.path), record.to_text())

    def _intact(self, path: str) -> SegmentRecord | str:
        """Return the record of a segment that can be reused, or say why it cannot."""
        try:
            record = SegmentRecord.of_text(_record_of(path).read_text(encoding="utf-8"))
            there = _content(Path(path))
        except (OSError, TypeError, ValueError) as error:
            return f"its record or its files cannot be read ({error})"
        names = dict.fromkeys([*self.made_from, *record.made_from])
        changed = [n for n in names if self.made_from.get(n) != record.made_from.get(n)]
        if changed:
            return f"{', '.join(changed)} changed since attempt {record.attempt}"
        for name in sorted({*record.files, *there}):
            if name not in there:
                return f"{name} is missing"
            if name not in record.files:
                return f"{name} was added"
            if there[name] != record.files[name]:
                return f"{name} was changed"
        return record


def _record_of(path: str) -> Path:
    return Path(f"{path}.json")


def _content(folder: Path) -> dict[str, str]:
    """Hash every file below a folder, and list the folders."""
    if folder.is_symlink() or not folder.is_dir():
        return {}
    found = sorted(folder.rglob("*"))
    files = [path for path in found if path.is_file() and not path.is_symlink()]
    others = {path: LINK if path.is_symlink() else FOLDER for path in {*found} - {*files}}
    hashes = hash_files(files, folder)
    listed = {str(path.relative_to(folder)): kind for path, kind in others.items()}
    return dict(sorted((hashes | listed).items()))
