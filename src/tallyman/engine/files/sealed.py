"""What binds the files of a run's folder: the ledger of their target, and the seal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from tallyman.domain.account.ledger_json import files_listed
from tallyman.engine.files.listing import hash_files
from tallyman.engine.files.run_folder import LEDGER, SEAL

UNFINISHED = ".staging"
"""Of attempts at work; cleared when the run ends."""
PLACING = f".{SEAL}.part"
"""Another process may be putting the seal in its place."""


def binds(ledger: Path) -> dict[str, str] | None:
    """What a ledger says of the files beside it, sha256 by name; None when it lists none."""
    try:
        found = json.loads(ledger.read_bytes())
    except (OSError, RecursionError, ValueError):
        return None  # then it binds nothing, and its own hash says why
    return files_listed(found)


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


def hashes_for_seal(folder: Path) -> dict[str, str]:
    """sha256 by name of every file but the seal. What a ledger lists is not read again: the ledger
    is bound itself, and its hash is repeated so that the file can be checked without it."""
    found = [path for path in files_in(folder) if path.is_file()]
    listed: dict[Path, str] = {}
    for ledger in (path for path in found if path.name == LEDGER):
        listed |= {ledger.parent / name: digest for name, digest in (binds(ledger) or {}).items()}
    own = hash_files([path for path in found if path not in listed], folder)
    return own | {str(path.relative_to(folder)): digest for path, digest in listed.items()}
