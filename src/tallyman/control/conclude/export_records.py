"""Records of exported files: which run of which asset wrote a file, and its hash. Only a file that
is still as recorded is ever replaced."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyman.engine.files import durable
from tallyman.state_folder import ready

FOLDER = "exports"


@dataclass(frozen=True, slots=True)
class ExportRecords:
    """The records of a project, one file for each path."""

    home: Path
    state: Path

    def refusal(self, asset: str, path: str) -> str | None:
        """Say why the file at this path may not be replaced; None if it may."""
        target = self.home / path
        if target.is_dir():
            return "a folder with this name exists"
        if not target.exists() and not target.is_symlink():
            return None
        if target.is_symlink() or not target.is_file():
            return f"no run of asset {asset!r} wrote what is there; move it away"
        digest, known = _digest(target), self._read(path)
        if known is None:
            return f"no run of asset {asset!r} wrote the file that is there; move it away"
        if known["asset"] != asset:
            return f"asset {known['asset']!r} wrote the file that is there; move it away"
        # A crash between the record and the move leaves the file before.
        if digest not in (known["sha256"], known.get("before")):
            return f"the file was changed since run {known['run']} wrote it; move it away"
        return None

    def add(self, asset: str, path: str, run: str, written: Path) -> None:
        """Record a file before it is moved to its path."""
        place = self._place(path)
        ready(self.state)
        place.parent.mkdir(exist_ok=True)
        target = self.home / path
        before = _digest(target) if target.exists() else None
        found = {"path": path, "asset": asset, "run": run, "before": before}
        found["sha256"] = _digest(written)
        aside = place.with_suffix(".part")
        durable.write(aside, json.dumps(found).encode())
        aside.replace(place)

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            found = json.loads(self._place(path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return (
            found if isinstance(found, dict) and {"asset", "run", "sha256"} <= set(found) else None
        )

    def _place(self, path: str) -> Path:
        return self.state / FOLDER / f"{hashlib.sha256(path.encode()).hexdigest()[:32]}.json"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
