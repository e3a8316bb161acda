"""Memory of doors by content: the same bytes are measured once.

Count, digest and repeated keys belong to the bytes of an input and to the way its keys are read.
The bytes are identified by their sha256, which every run computes anyway.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from tallyman.domain.account.column_metrics import MetricsByColumn
from tallyman.domain.account.ledger import DIGEST_VERSION, KeyDigest
from tallyman.domain.codec import of_plain, to_plain

VERSION = 2
"""The version of what is a record. Doors of another one, or with other digests, do not count."""
MOST = 1_000
"""The number of inputs that are remembered; the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class Door:
    """The measurement of an input at the door, before and apart from any step."""

    digest: KeyDigest
    null_keys: int = 0
    blank_lines: int = 0
    repeated: int | None = None
    """The number of records with the key of an earlier one; None if they were not counted."""
    columns: MetricsByColumn | None = None
    """The metrics of columns; None if they were not measured."""
    typing: str | None = None
    """The way of typing by which every record fits the declaration; None if some does not, or if it
    is not known.
    """


@dataclass(frozen=True, slots=True)
class DoorMemory:
    """Doors by content, as files in one folder. A file that is damaged is as good as none."""

    folder: Path
    of_columns: bool = False
    """True if doors of text inputs are measured, and remembered, with their columns."""

    def recall(self, content_hash: str, reading: str) -> Door | None:
        """Return what was measured before; `reading` says how keys are read."""
        try:
            said = json.loads(self._place(content_hash, reading).read_text(encoding="utf-8"))
            if said["sha256"] != _hash(said["door"]):
                return None
            return of_plain(Door, said["door"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, content_hash: str, reading: str, door: Door) -> None:
        facts = to_plain(door)
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self._place(content_hash, reading)
        aside = place.with_suffix(f".{uuid4().hex}")
        aside.write_text(json.dumps({"door": facts, "sha256": _hash(facts)}), encoding="utf-8")
        os.replace(aside, place)
        self._forget()

    def forget(self, content_hash: str, reading: str) -> None:
        self._place(content_hash, reading).unlink(missing_ok=True)

    def _place(self, content_hash: str, reading: str) -> Path:
        name = _hash([VERSION, DIGEST_VERSION, content_hash, reading])
        return self.folder / f"{name}.json"

    def _forget(self) -> None:
        kept = list(self.folder.glob("*.json"))
        for file in sorted(kept, key=_age)[:-MOST] if len(kept) > MOST else []:
            file.unlink(missing_ok=True)


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _age(file: Path) -> float:
    try:
        return os.stat(file).st_mtime
    except FileNotFoundError:
        return 0.0
