"""Presence: which workers call this server, as far as it remembers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from uuid import UUID

from tallyman.domain.version.owner import Owner

PRESENT_S = 15.0
"""After so long without a call a worker counts as gone: an idle one calls every two seconds, one at
work three times in its lease."""


class Presence:
    """Each place of a worker calls by itself, and is counted by itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[Owner, str], float] = {}
        self._at_work: dict[UUID, str] = {}

    def claims(self, owner: Owner, place: str, task: UUID | None = None) -> None:
        """Remember a place that asks for a task, and the task that it got: heartbeats name the task
        only."""
        with self._lock:
            self._seen[owner, place] = time.monotonic()
            if task is not None:
                self._at_work[task] = place

    def beats(self, owner: Owner, task: UUID) -> None:
        """Remember the place that works on a task; its claim may have gone to another server."""
        with self._lock:
            self._seen[owner, self._at_work.get(task, str(task))] = time.monotonic()

    def counts(self) -> dict[str, int]:
        """Count the places that called lately by pipeline, and forget the others."""
        oldest = time.monotonic() - PRESENT_S
        with self._lock:
            self._seen = {place: at for place, at in self._seen.items() if at >= oldest}
            known = {place for _, place in self._seen}
            self._at_work = {task: at for task, at in self._at_work.items() if at in known}
            return dict(Counter(str(owner) for owner, _ in self._seen))
