"""The files of a pipeline as text, to be kept with its version for people who compare versions."""

from __future__ import annotations

from pathlib import Path

from tallyman.engine.code.helper_modules import IMPORTED, helper_modules
from tallyman.engine.code.shown_code import shown_code

YAML = (".yaml", ".yml")
JSON = ".json"
LARGEST = 1_000_000
"""The most bytes of a file whose text is kept."""


def kept_files(folder: Path) -> dict[str, str | None]:
    """Return the text of each file that declares the pipeline, and of each module of the user's own
    that it imports. Secrets are hidden. No other file of the folder is read."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    found |= {path.name: path for path in folder.glob("*") if path.suffix in (*YAML, JSON)}
    found |= {f"{IMPORTED}{name}": path for name, path in helper_modules(folder)}
    return {name: _kept(path) for name, path in sorted(found.items()) if path.is_file()}


def _kept(path: Path) -> str | None:
    try:
        content = path.read_bytes()
        text = content.decode() if len(content) <= LARGEST else None
    except (OSError, UnicodeDecodeError):
        return None
    # PostgreSQL stores no NUL, and a text with one is no source code.
    if text is None or "\0" in text:
        return None
    return shown_code("PYTHON" if path.suffix == ".py" else "YAML", text).text
