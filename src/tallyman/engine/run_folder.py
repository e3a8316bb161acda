"""The run folder: state seen with `ls`, written once, recognisably unfinished until the end."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from tallyman.domain.run import RunIdentity
from tallyman.errors import RunFolderExists

REPORT = "processing_report.json"


@dataclass(frozen=True, slots=True)
class RunFolder:
    path: Path

    @classmethod
    def create(cls, runs: Path, run: RunIdentity) -> RunFolder:
        """Refused when the run id is taken: history is never written over."""
        runs.mkdir(parents=True, exist_ok=True)
        for manifest in runs.glob("*/manifest.json"):
            if json.loads(manifest.read_text(encoding="utf-8"))["run_id"] == run.run_id:
                raise RunFolderExists(run.run_id, manifest.parent.name)
        path = runs / run.folder_name
        path.mkdir()
        return cls(path)

    def asset(self, name: str) -> Path:
        folder = self.path / name
        folder.mkdir()
        return folder

    def staging(self, name: str) -> Path:
        folder = self.path / ".staging" / name
        folder.mkdir(parents=True)
        return folder

    def write(self, name: str, content: object) -> None:
        write_json(self.path / name, content)

    @property
    def finished(self) -> bool:
        return (self.path / REPORT).exists()


def write_json(path: Path, content: object) -> None:
    """All of it or nothing: a reader never meets half a file."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    if path.exists():
        raise FileExistsError(path)
    aside = path.with_name(f".{path.name}.part")
    with open(aside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(aside, path)
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
