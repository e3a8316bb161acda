"""The sizes of a target's files, by purpose, from the file system alone."""

from __future__ import annotations

import os
from pathlib import Path

KINDS = {
    "output": "output",
    "outputs": "outputs",
    "adjoint": "evidence",
    "errors": "dead_letters",
    "trace": "trace",
}
"""The folders of a target and their names in the report; everything else is `other`."""


def sizes(place: Path) -> dict[str, dict[str, int]]:
    """Count files and bytes of each kind."""
    found: dict[str, dict[str, int]] = {}
    if not place.is_dir():
        return found
    for folder, _, names in os.walk(place):
        top = Path(os.path.relpath(folder, place)).parts
        kind = KINDS.get(top[0], "other") if top else "other"
        for name in names:
            counted = found.setdefault(kind, {"files": 0, "bytes": 0})
            counted["files"] += 1
            counted["bytes"] += os.stat(os.path.join(folder, name)).st_size
    return {kind: found[kind] for kind in (*KINDS.values(), "other") if kind in found}
