"""Text for people, on a terminal or a page."""

from __future__ import annotations

import re

GENERATED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def short(run: str) -> str:
    """A generated id by its beginning, which is enough to name it; a given name whole."""
    return run[:8] if GENERATED.fullmatch(run) else run


def printable(text: str) -> str:
    """What a terminal or a page would obey instead of showing it is spelled out."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
