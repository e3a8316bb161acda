"""The folder `.tallyman` of a project, and the file in it that says the format of the project."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path
from uuid import uuid4

from tallyman.errors import OtherFormat

FORMAT = 1
FILE = "format"
ASIDE = ".format-"


def ready(folder: Path) -> Path:
    """Make the folder with its format file; idempotent. Everything that writes into it asks here
    first, so a folder with content and without that file is an earlier project's."""
    place = folder / FILE
    if place.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f"{ASIDE}{uuid4().hex}"
    made_by = {"format": FORMAT, "made_by": metadata.version("tallyman")}
    aside.write_text(f"{json.dumps(made_by)}\n", encoding="utf-8")
    home = folder.parent.stat()
    if os.geteuid() == 0 != home.st_uid:
        for made in (folder, aside):
            os.chown(made, home.st_uid, home.st_gid)  # keep the project owner's ownership
    os.replace(aside, place)
    return folder


def check(folder: Path) -> None:
    """Raise OtherFormat if the folder is of a project that this program cannot read. Changes
    nothing."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if found["format"] == FORMAT:
            return
        made_by = f"Tallyman {found['made_by']} in format {found['format']}"
    except (FileNotFoundError, NotADirectoryError):
        if not folder.is_dir() or all(name.startswith(ASIDE) for name in os.listdir(folder)):
            return
        made_by = f"an earlier Tallyman, which wrote no {folder.name}/{FILE}"
    except (ValueError, KeyError, TypeError):
        made_by = f"another program: {folder.name}/{FILE} is not one of ours"
    raise OtherFormat(folder.name, f"{made_by}; this program reads format {FORMAT} only")
