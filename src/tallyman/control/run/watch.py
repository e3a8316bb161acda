"""Watching over a run from beside it: it lives, it may be canceled, it may be taken away."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tallyman.control.run.journal import Journal
from tallyman.errors import DatabaseUnavailable, RunTaken

EVERY = 1.0
"""Seconds: how soon a cancel is heard. The lease is thirty times as long."""


class Watch:
    """A thread while the block lasts; `interrupt` stops what is computing when it must end."""

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
                continue  # whoever writes next waits for it, or gives up with a better word
            except RunTaken:
                canceled = True
            if canceled:
                self.stop.set()
                # Again and again: a job that starts just after the first time must end too.
                self.interrupt()
