"""Text formatting for people, on a terminal or a page."""

from __future__ import annotations

import re

GENERATED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def short(run: str) -> str:
    """Shorten a generated run id to its prefix; keep a given name."""
    return run[:8] if GENERATED.fullmatch(run) else run


def printable(text: str) -> str:
    """Make control characters visible, which a terminal or a page would otherwise interpret."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
