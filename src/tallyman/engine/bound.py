"""Which file of a run's folder is bound by what: by its target's ledger, or by the seal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from tallyman.engine.run_folder import LEDGER, SEAL

UNFINISHED = ".staging"
"""Of attempts at work; cleared when the run ends."""
PLACING = f".{SEAL}.part"
"""Another process may be putting the seal in its place."""


def binds(ledger: Path) -> dict[str, str] | None:
    """What a ledger says of the files beside it, sha256 by name; None when it lists none."""
    try:
        found = json.loads(ledger.read_bytes())
    except (OSError, RecursionError, ValueError):
        return None  # then it binds nothing, and its own hash tells why
    files = found.get("files") if isinstance(found, dict) else None
    return files if isinstance(files, dict) else None


def files_in(folder: Path) -> Iterator[Path]:
    """Every file of a run's folder but the seal, in a stable order. A link to a folder is one."""
    for place, folders, names in os.walk(folder):
        top = place == str(folder)
        if top:
            folders[:] = [name for name in folders if name != UNFINISHED]
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        folders.sort()
        for name in sorted([*names, *links]):
            if not (top and name in (SEAL, PLACING)):
                yield Path(place, name)


def bound_by_seal(folder: Path) -> list[Path]:
    """All files but the seal and those that a ledger lists, which is bound itself."""
    found = [path for path in files_in(folder) if path.is_file()]
    listed: set[Path] = set()
    for ledger in (path for path in found if path.name == LEDGER):
        listed |= {ledger.parent / name for name in binds(ledger) or ()}
    return [path for path in found if path not in listed]
