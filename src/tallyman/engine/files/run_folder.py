"""The run folder: files written once, recognizably unfinished until the run ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tallyman.engine.files import durable
from tallyman.errors import RunTaken

MANIFEST = "manifest.json"
LEDGER = "ledger.json"
CONFIG = "config.json"
REPORT = "processing_report.json"
SEAL = "seal.json"
UNFINISHED = ".staging"
"""The folder of attempts at work; when the run ends, only segments that a resume can reuse stay."""
TRACE = "trace"
"""The folder of a target's trace."""
SEGMENT = "segment-"
"""The beginning of the names of a segment's folder and of its record."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    path: Path

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Create the folder when the run begins; it exists already when the run is resumed."""
        path.mkdir(parents=True, exist_ok=True)
        return cls(path)

    def begin(self, name: str, attempt: int) -> tuple[Path, Path]:
        """Make new folders for an attempt at a target: for kept files, and for scratch files. No
        other attempt uses them, so a process that was taken for dead and wakes up cannot damage
        others' files.
        """
        files, work = self._folders(name, attempt)
        for folder in (files, work):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self._take_over(name, attempt, work)
        return files, work

    def unfinished(self, name: str, attempt: int) -> Path:
        """Return the folder with the files of an attempt until they are put in their place."""
        return self._folders(name, attempt)[0]

    def _folders(self, name: str, attempt: int) -> tuple[Path, Path]:
        files = self.path / UNFINISHED / str(attempt) / name
        return files, files.with_name(f"{files.name}.work")

    def _take_over(self, name: str, attempt: int, work: Path) -> None:
        """Take the segments of the newest earlier attempt that left any. Once moved, they are out
        of reach of a process that wakes up late.
        """
        for earlier in range(attempt - 1, 0, -1):
            _, left = self._folders(name, earlier)
            segments = sorted(left.glob(f"{SEGMENT}*"))
            for segment in segments:
                os.rename(segment, work / segment.name)
            shutil.rmtree(left, ignore_errors=True)
            if segments:
                return

    def put(self, name: str, attempt: int) -> None:
        """Move the attempt's files to their place; RunTaken if a later attempt's files are
        there.
        """
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(self._folders(name, attempt)[0], target)
        except OSError as error:
            raise RunTaken(self.path.name) from error

    def replace(self, name: str, attempt: int) -> None:
        """Move the attempt's files to their place, and those of an earlier attempt away. Does
        nothing if that is done."""
        if self.unfinished(name, attempt).exists():
            self.set_aside(name, attempt - 1)
            self.put(name, attempt)

    def drop(self, name: str, attempt: int) -> None:
        """Remove the files of an attempt that ended without a result."""
        for folder in self._folders(name, attempt):
            shutil.rmtree(folder, ignore_errors=True)

    def set_aside(self, name: str, attempt: int) -> None:
        """Move the files of an earlier attempt away, so that the next one can use the place."""
        source = self.path / name
        if not source.exists():
            return
        aside = self.path / "attempts" / str(attempt) / name
        while aside.exists():
            attempt += 1
            aside = self.path / "attempts" / str(attempt) / name
        aside.parent.mkdir(parents=True, exist_ok=True)
        os.rename(source, aside)

    def clear_scratch(self, *, keep_segments: bool = False) -> None:
        """Remove what attempts left; `keep_segments` keeps complete segments for a resume."""
        place = self.path / UNFINISHED
        records = place.rglob(f"*.work/{SEGMENT}*.json") if keep_segments else ()
        _prune(place, {path for record in records for path in (record, record.with_suffix(""))})

    def write(self, name: str, content: object) -> None:
        write_json(self.path / name, content)

    def read(self, name: str) -> object:
        """Read a file that `write` wrote; None if there is none."""
        place = self.path / name
        return json.loads(place.read_text(encoding="utf-8")) if place.exists() else None


def _prune(folder: Path, kept: Collection[Path]) -> None:
    """Remove everything from a folder but what is kept; without that, the folder too."""
    if not any(folder in path.parents for path in kept):
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir():
        if path in kept:
            continue
        if path.is_dir() and not path.is_symlink():
            _prune(path, kept)
        else:
            path.unlink()


def write_json(path: Path, content: object) -> None:
    """Write all of it or nothing: a reader never sees half a file."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    if path.exists():
        raise FileExistsError(path)
    aside = path.with_name(f".{path.name}.part")
    durable.write(aside, text.encode())
    os.rename(aside, path)
    with contextlib.suppress(OSError):
        durable.sync(path)
