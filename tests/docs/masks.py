"""Compare printed lines with what a page shows: ids, hashes, times and sizes may differ."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence

KINDS = {
    "time": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d| UTC)?",
    "folder": r"\b\d{4}_\d{6}_\w+\b",
    "uuid": r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    "hash": r"\b(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{16}|[0-9a-f]{12})\b",
    "id": r"\b[0-9a-f]{8}\b",
    "seconds": r"\b[\d,]+(?:\.\d+)? (?:ms|s|min)\b",
    "size": r"\b[\d,]+(?:\.\d+)? (?:bytes|B|kB|MB|GB)(?!\w)",
}
NAMES = ("folder", "uuid", "hash", "id")
"""Kinds that a later command may use."""
ELISION = ("…", "...")
_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in KINDS.items()))
_MILLISECONDS = re.compile(r"_ms(?: +[\d,]+)+ *$")
_BYTES = re.compile(r"(?:^|  )bytes(?=  |$)")


def masked(lines: Sequence[str]) -> list[str]:
    """The lines with what may differ replaced; widths of columns do not count."""
    columns: list[int] = []
    found = []
    for line in lines:
        for end in columns:
            line = re.sub(r"[\d,]+$", "<size>", line[:end]) + line[end:]
        if heads := [m.end() for m in _BYTES.finditer(line)]:
            columns = heads
        text = _TOKEN.sub(lambda m: f"<{m.lastgroup}>", _MILLISECONDS.sub("_ms  <seconds>", line))
        found.append(re.sub(r" {2,}", "  ", text).rstrip())
    return found


def pairs(shown: Sequence[str], printed: Sequence[str]) -> list[tuple[int, int]] | None:
    """Match line by line, `…` with any lines; None if they do not match."""
    left, right = masked(shown), masked(printed)
    chunks = _chunks(left)
    if len(chunks) == 1:
        return [(n, n) for n in range(len(left))] if left == right else None
    found: list[tuple[int, int]] = []
    at = 0
    for number, chunk in enumerate(chunks):
        size = len(chunk)
        last = number == len(chunks) - 1
        starts = range(at, 1) if number == 0 else range(at, len(right) - size + 1)
        starts = range(max(at, len(right) - size), len(right) - size + 1) if last else starts
        texts = [left[n] for n in chunk]
        start = next((s for s in starts if right[s : s + size] == texts), None)
        if start is None:
            return None
        found += zip(chunk, range(start, start + size), strict=True)
        at = start + size
    return found


def difference(shown: Sequence[str], printed: Sequence[str]) -> str:
    both = masked(shown), masked(printed)
    return "\n".join(difflib.unified_diff(*both, "in the page", "printed", lineterm="", n=1))


def names(shown: Sequence[str], printed: Sequence[str]) -> dict[str, str]:
    """Which id of the page is which id of this run; also where other words have changed."""
    found: dict[str, str] = {}
    for old, new in _neighbours(shown, printed):
        for kind, before, after in _tokens(old, new):
            if kind in NAMES:
                found |= dict(_forms(before, after, kind))
    return found


def renamed(text: str, known: Mapping[str, str]) -> str:
    return _TOKEN.sub(lambda m: known.get(m.group(), m.group()), text)


def recorded(
    shown: Sequence[str], printed: Sequence[str], known: Mapping[str, str]
) -> Sequence[str]:
    """What the page shows from now on. What only ids, times and sizes tell apart stays as it is,
    and a changed line keeps the page's ids and times, so that a page is one story."""
    if pairs(shown, printed) is not None:
        return shown
    kept = dict(_neighbours(printed, shown))
    page_ids = {new: old for old, new in known.items()}
    lines = [renamed(_as_long(line, kept.get(line, "")), page_ids) for line in printed]
    return elided(shown, lines)


def elided(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """What was printed, without the lines that the page leaves out."""
    lines = [line.rstrip() for line in printed]
    marks = [n for n, line in enumerate(shown) if _elided(line)]
    found = pairs(shown, printed)
    if found is not None:
        places = dict(found)
        return [lines[places[n]] if n in places else line for n, line in enumerate(shown)]
    if not marks:
        return lines
    before, after = marks[0], len(shown) - marks[-1] - 1
    return [*lines[:before], shown[marks[0]], *lines[len(lines) - after :]]


def _as_long(line: str, old: str) -> str:
    """The line with the times of the old one: how busy a machine was is no news."""
    times = [(new, old) for kind, old, new in _tokens(old, line) if kind in ("seconds", "time")]
    for now, then in times:
        line = line.replace(now, then, 1)
    return line


def _neighbours(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Lines that are the same but for what may differ, and changed ones in their place."""
    both = masked(left), masked(right)
    for tag, a, b, c, d in difflib.SequenceMatcher(None, *both, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and b - a == d - c):
            yield from zip(left[a:b], right[c:d], strict=True)


def _elided(line: str) -> bool:
    return line.strip() in ELISION


def _chunks(lines: Sequence[str]) -> list[list[int]]:
    """Numbers of the lines between elisions."""
    found: list[list[int]] = [[]]
    for number, line in enumerate(lines):
        if _elided(line):
            found.append([])
        else:
            found[-1].append(number)
    return found


def _tokens(old: str, new: str) -> list[tuple[str, str, str]]:
    """Kind, before and after of what may differ; none if the lines have other kinds of it."""
    left, right = list(_TOKEN.finditer(old)), list(_TOKEN.finditer(new))
    if [m.lastgroup for m in left] != [m.lastgroup for m in right]:
        return []
    both = zip(left, right, strict=True)
    return [(str(a.lastgroup), a.group(), b.group()) for a, b in both]


def _forms(old: str, new: str, kind: str) -> Iterator[tuple[str, str]]:
    """A run is also named by the beginning of its id, which ends the name of its folder."""
    yield old, new
    if kind == "uuid":
        yield old[:8], new[:8]
    if kind == "folder":
        yield old[len("1115_084139_") :], new[len("1115_084139_") :]
