"""The time limit of one attempt at a target, in a run that this process makes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

EVERY = 1.0
"""Seconds between interrupts: a job that starts just after one must stop too."""


class Deadline:
    """Interrupts the attempt when its time is over, for the duration of a `with` block. Without a
    limit it does nothing."""

    def __init__(self, limit_s: float | None, interrupt: Callable[[], None]) -> None:
        self.limit_s = limit_s
        self.interrupt = interrupt
        self.passed = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tallyman-deadline", daemon=True)

    def __enter__(self) -> Deadline:
        if self.limit_s is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.limit_s is not None:
            self._thread.join(timeout=10)

    def _watch(self) -> None:
        pause = self.limit_s
        while not self._over.wait(pause):
            self.passed = True
            with contextlib.suppress(Exception):  # Spark may be gone: the attempt has failed then
                self.interrupt()
            pause = EVERY
