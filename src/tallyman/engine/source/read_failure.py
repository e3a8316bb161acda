"""Failures of Spark to read a file of an input: which file it was, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

from tallyman.engine.source.source import Input
from tallyman.errors import InputUnreadable

_FILE = re.compile(r"\[FAILED_READ_FILE[.A-Z_]*\] Encountered error while reading file (\S+)\.\s")
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)
MOST = 200
"""The longest reason that is shown, in characters."""


def unreadable(error: BaseException, inputs: Iterable[Input]) -> InputUnreadable | None:
    """Name the file of an input that made Spark fail; None if it was something else."""
    for text in _texts(error):
        found = _FILE.search(text)
        if found is None:
            continue
        path = unquote(urlsplit(found[1]).path)
        for source in inputs:
            for file in source.files.files:
                if file.path == path:
                    return InputUnreadable(source.name, file.name, _reason(text, source))
    return None


def _reason(text: str, source: Input) -> str:
    """Return the innermost cause, unless it might show a redacted value."""
    causes = _CAUSE.findall(text)
    if not causes or source.redaction.columns:
        return "its content is damaged"
    return str(causes[-1]).strip()[:MOST]


def _texts(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield str(error)
        error = error.__cause__
