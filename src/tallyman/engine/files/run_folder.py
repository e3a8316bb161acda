"""The run folder: files written once, recognizably unfinished until the run ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tallyman.engine.files import durable
from tallyman.errors import RunTaken

MANIFEST = "manifest.json"
LEDGER = "ledger.json"
CONFIG = "config.json"
REPORT = "processing_report.json"
SEAL = "seal.json"


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
        self.set_aside(name, attempt - 1)
        files = self.path / ".staging" / str(attempt) / name
        work = files.with_name(f"{files.name}.work")
        for folder in (files, work):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        return files, work

    def put(self, name: str, attempt: int) -> None:
        """Move the attempt's files to their place; RunTaken if a later attempt's files are
        there.
        """
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(self.path / ".staging" / str(attempt) / name, target)
        except OSError as error:
            raise RunTaken(self.path.name) from error

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

    def clear_scratch(self) -> None:
        shutil.rmtree(self.path / ".staging", ignore_errors=True)

    def write(self, name: str, content: object) -> None:
        write_json(self.path / name, content)


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
