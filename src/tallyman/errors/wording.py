"""Words that many errors share: the nearest name that exists, and what another error says."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Find the known name that is most like a wrong one; None if none is alike."""
    return next(iter(difflib.get_close_matches(name, list(known), 1, cutoff)), None)


def first_line(error: BaseException | str, most: int | None = None) -> str:
    """Take what a library's error says first: the rest is where it was. Its kind if it is mute."""
    said = str(error).strip() or type(error).__name__
    return said.splitlines()[0][:most]
