"""The log of a server or worker: one line for each thing that happened, with its time."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tallyman.cli.terminal.output import out, text_of

ROOT = "tallyman"


class TerminalLog(logging.Handler):
    """Prints a line for each record; with `as_json`, a line of JSON. The same trouble is reported
    once until there is news."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__(logging.INFO)
        self._as_json = as_json
        self._last = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        facts = getattr(record, "facts", None)
        trouble = record.levelno >= logging.WARNING
        if trouble and facts is None and text == self._last:
            return
        self._last = text if trouble else ""
        at = datetime.fromtimestamp(record.created, UTC)
        if self._as_json:
            said = {"at": at.isoformat(), "level": record.levelname.lower(), "message": text}
            print(json.dumps(said | (facts or {}), ensure_ascii=False, default=text_of), flush=True)
            return
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        style = "yellow" if trouble else None
        out.print(f"{at:%Y-%m-%dT%H:%M:%SZ}  {text}", style=style)


@contextmanager
def logging_to_terminal(*, as_json: bool) -> Iterator[None]:
    """Print what the program's loggers say, until the block ends."""
    handler, root = TerminalLog(as_json=as_json), logging.getLogger(ROOT)
    level, propagates = root.level, root.propagate
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    root.propagate = False
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        root.propagate = propagates
