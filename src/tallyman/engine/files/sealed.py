"""The hashes that bind the files of a run folder: the ledgers of targets, and the seal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from tallyman.domain.account.ledger_json import files_listed
from tallyman.engine.files.listing import hash_files
from tallyman.engine.files.run_folder import LEDGER, SEAL, UNFINISHED

PLACING = f".{SEAL}.part"
"""The temporary file of a seal that another process may be writing."""


def binds(ledger: Path) -> dict[str, str] | None:
    """Read the sha256 of the files next to a ledger, by name; None if it lists none."""
    try:
        found = json.loads(ledger.read_bytes())
    except (OSError, RecursionError, ValueError):
        return None  # a broken ledger binds nothing, and its own hash shows it
    return files_listed(found)


def content_of(path: Path) -> bytes | None:
    """Read a file; None if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def is_set_aside(folder: Path, seal: bytes) -> bool:
    """True if a resume moved this seal to `attempts/`: the files may have changed since."""
    return any(content_of(path) == seal for path in folder.glob(f"attempts/*/{SEAL}"))


def files_in(folder: Path) -> Iterator[Path]:
    """Yield every file of a run folder except the seal, in a stable order; a link to a folder
    too.
    """
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
    """Hash every file except the seal. Files that a ledger lists are not read again: the ledger
    itself is bound, and its hashes are repeated, so that a file can be checked without it.
    """
    found = [path for path in files_in(folder) if path.is_file()]
    listed: dict[Path, str] = {}
    for ledger in (path for path in found if path.name == LEDGER):
        listed |= {ledger.parent / name: digest for name, digest in (binds(ledger) or {}).items()}
    own = hash_files([path for path in found if path not in listed], folder)
    return own | {str(path.relative_to(folder)): digest for path, digest in listed.items()}
