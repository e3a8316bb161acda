"""Text formatting for people, on a terminal or a page."""

from __future__ import annotations

import re

from tallyman.domain.pipeline.partition import decode
from tallyman.errors import UsageError

GENERATED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

LONGEST = 120
STEPS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
WORDS = {
    "PASSED": "passed",
    "AGGREGATED": "aggregated",
    "EXPLODED": "exploded",
    "FILTERED": "filtered",
    "ERROR": "rejected",
    "UNACCOUNTED": "unaccounted for",
}
"""Fates in the order in which they are listed, and what else may become of records."""
STATUS = {
    "success": "succeeded",
    "waiting_approval": "waits for approval",
    "pending": "not run",
    "running": "running",
    "unknown": "unknown",
}
KINDS = {
    "read": "inputs read",
    "output": "output",
    "outputs": "further outputs",
    "evidence": "evidence",
    "dead_letters": "dead letters",
    "trace": "trace",
    "other": "ledger and other",
}


def short(run: str) -> str:
    """Shorten a generated run id to its prefix; keep a given name."""
    return run[:8] if GENERATED.fullmatch(run) else run


def printable(text: str) -> str:
    """Make control characters visible, which a terminal or a page would otherwise interpret."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def duration(ms: object) -> str:
    if not isinstance(ms, int):
        return "–"
    if ms < 1000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


def size(count: object) -> str:
    if not isinstance(count, int):
        return "–"
    for unit, step in STEPS:
        if count >= step:
            return f"{count / step:.1f} {unit}"
    return f"{count} B"


def share(fraction: float) -> str:
    """Format a share so that a nonzero one is never shown as 0 %, and an incomplete one never as
    100 %."""
    percent = fraction * 100
    if 0 < percent < 0.01:
        return "< 0.01 %"
    if 99.99 < percent < 100:
        return "> 99.99 %"
    return f"{percent:.2f}".rstrip("0").rstrip(".") + " %"


def cut(value: object, longest: int = LONGEST) -> str:
    text = printable("" if value is None else str(value))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def partition(key: object) -> str:
    """Write a partition key as people write it."""
    if not isinstance(key, str):
        return ""
    try:
        return str(decode(key))
    except UsageError:
        return key


def status(word: str) -> str:
    return STATUS.get(word, word.replace("_", " "))
