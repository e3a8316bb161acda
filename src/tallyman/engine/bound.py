"""Which file of a run's folder is bound by what: by its target's ledger, or by the seal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tallyman.engine.run_folder import SEAL

LEDGER = "ledger.json"
UNFINISHED = ".staging"
"""Of attempts at work; cleared when the run ends."""


def ledgers(folder: Path) -> dict[Path, dict[str, Any]]:
    """Every folder whose files a ledger lists, the ones of earlier attempts too."""
    found = {}
    for path in sorted(folder.rglob(LEDGER)):
        if UNFINISHED in path.relative_to(folder).parts:
            continue
        try:
            ledger = json.loads(path.read_bytes())
        except ValueError:
            continue  # then it binds nothing, and its own hash tells why
        if isinstance(ledger, dict) and isinstance(ledger.get("files"), dict):
            found[path.parent] = ledger
    return found


def bound_by_seal(folder: Path) -> list[Path]:
    """All files but the seal and those that a ledger binds, which is bound itself."""
    listed = set(ledgers(folder))
    return sorted(_outside(folder, listed))


def _outside(place: Path, listed: set[Path], top: bool = True) -> Iterator[Path]:
    if place in listed:
        yield place / LEDGER
        return
    for path in place.iterdir():
        if path.is_dir():
            if path.name != UNFINISHED:
                yield from _outside(path, listed, False)
        elif not (top and path.name == SEAL) and not path.name.endswith(".part"):
            yield path
