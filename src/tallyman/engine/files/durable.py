"""What must survive a power cut: files, then the folders that name them."""

from __future__ import annotations

import os
from pathlib import Path


def sync(*paths: Path) -> None:
    """The bytes of each, and the entries of the folders they are in."""
    for path in [*paths, *sorted({path.parent for path in paths})]:
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
