"""Watch over a run in the background: renew its lease, and notice a cancel or a takeover."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tallyman.control.run.journal import Journal
from tallyman.errors import DatabaseUnavailable, RunTaken

EVERY = 1.0
"""Seconds between beats: how fast a cancel is noticed. The lease is thirty times as long."""


class Watch:
    """A background thread for the duration of a `with` block. `interrupt` stops running
    computations."""

    def __init__(self, journal: Journal, interrupt: Callable[[], None]) -> None:
        self.journal = journal
        self.interrupt = interrupt
        self.stop = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tallyman-watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=10)

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            try:
                canceled = self.journal.beat()
            except DatabaseUnavailable:
                continue  # the next write waits, or fails with a better message
            except RunTaken:
                canceled = True
            if canceled:
                # Repeat: a job that starts just after the first interrupt must stop too.
                self.halt()

    def halt(self) -> None:
        """Make running targets end as canceled, and let no other begin."""
        self.stop.set()
        self.interrupt()
