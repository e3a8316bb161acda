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
        self._places: dict[UUID, str] = {}
        self._tasks: dict[tuple[Owner, str], UUID] = {}
        """The task that each place got last; `_places` has the same the other way round."""
        self._forgotten_at = time.monotonic()

    def claims(self, owner: Owner, place: str, task: UUID | None = None) -> None:
        """Remember a place that asks for a task, and the task that it got: heartbeats name the task
        only. Who asks has done with the task before."""
        with self._lock:
            self._forget()
            self._seen[owner, place] = time.monotonic()
            before = self._tasks.pop((owner, place), None)
            if before is not None:
                self._places.pop(before, None)
            if task is not None:
                self._tasks[owner, place] = task
                self._places[task] = place

    def beats(self, owner: Owner, task: UUID) -> None:
        """Remember the place that works on a task; its claim may have gone to another server."""
        with self._lock:
            self._forget()
            self._seen[owner, self._places.get(task, str(task))] = time.monotonic()

    def counts(self) -> dict[str, int]:
        """Count the places that called lately by pipeline."""
        with self._lock:
            self._forget(at_once=True)
            return dict(Counter(str(owner) for owner, _ in self._seen))

    @property
    def tasks(self) -> list[UUID]:
        """The tasks that places are known to work on."""
        with self._lock:
            return list(self._places)

    def _forget(self, *, at_once: bool = False) -> None:
        """Forget places that have not called lately, now and then: nobody may ever count."""
        now = time.monotonic()
        if not at_once and now - self._forgotten_at < PRESENT_S:
            return
        self._forgotten_at = now
        self._seen = {place: at for place, at in self._seen.items() if at >= now - PRESENT_S}
        self._tasks = {place: task for place, task in self._tasks.items() if place in self._seen}
        self._places = {task: place for (_, place), task in self._tasks.items()}
