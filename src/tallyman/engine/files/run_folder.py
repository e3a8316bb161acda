"""The run folder: state seen with `ls`, written once, recognisably unfinished until the end."""

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
        """Made when the run begins; there already when it is resumed."""
        path.mkdir(parents=True, exist_ok=True)
        return cls(path)

    def begin(self, name: str, attempt: int) -> tuple[Path, Path]:
        """Fresh folders for what a target's attempt keeps, and for what it only works with. Both
        are its own: a process that was taken for dead and wakes up writes into no other's files."""
        self.set_aside(name, attempt - 1)
        files = self.path / ".staging" / str(attempt) / name
        work = files.with_name(f"{files.name}.work")
        for folder in (files, work):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        return files, work

    def put(self, name: str, attempt: int) -> None:
        """The attempt's files into their place; RunTaken if a later attempt's are there."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(self.path / ".staging" / str(attempt) / name, target)
        except OSError as error:
            raise RunTaken(self.path.name) from error

    def set_aside(self, name: str, attempt: int) -> None:
        """Keep what an earlier attempt wrote, out of the way of the next."""
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
    """All of it or nothing: a reader never meets half a file."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    if path.exists():
        raise FileExistsError(path)
    aside = path.with_name(f".{path.name}.part")
    durable.write(aside, text.encode())
    os.rename(aside, path)
    with contextlib.suppress(OSError):
        durable.sync(path)
