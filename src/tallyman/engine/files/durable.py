"""Durable writes: files, then the folders that name them, survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync(*paths: Path) -> None:
    """Sync the bytes of each file, and the entries of the folders they are in."""
    for path in [*paths, *sorted({path.parent for path in paths})]:
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def write(path: Path, content: bytes, *, mode: int = 0o666, new: bool = False) -> None:
    """Write a whole file and sync it. `new`: refuse if the file exists.

    A reader may see half of it: write under another name, then move it to its place.
    """
    flags = os.O_WRONLY | os.O_CREAT | (os.O_EXCL if new else os.O_TRUNC)
    with open(os.open(path, flags, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
