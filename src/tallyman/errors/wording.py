"""Wording shared by many errors: the nearest existing name, and the text of another error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Find the known name most similar to a wrong one; None if none is similar."""
    return next(iter(difflib.get_close_matches(name, list(known), 1, cutoff)), None)


def first_line(error: BaseException | str, most: int | None = None) -> str:
    """Take the first line of a library's error, or the error's class name if it has no text."""
    said = str(error).strip() or type(error).__name__
    return said.splitlines()[0][:most]


def described(error: BaseException) -> str:
    """Return type and message of an error; an error of a user's class may have no text at all."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def run_of(target: str) -> str:
    """Write the command that makes a target, `asset` or `asset[partition]`."""
    asset, _, partition = target.removesuffix("]").partition("[")
    return f"tallyman run {asset}" + (f" --partition {partition}" if partition else "")
