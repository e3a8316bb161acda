"""The children of a worker: one that has done its task well stays for the next of its kind, because
starting Spark takes seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tallyman.worker.child_process import ChildKind, ChildProcess, remove_abandoned


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLimits:
    """When a child that works well is replaced all the same."""

    tasks: int = 100
    """After so many tasks; 1 means a new process for each."""
    idle_s: float = 300.0
    growth: int = 2 * 1024**3
    """After it, and what it started, grew by so many bytes since the end of its first task."""


DEFAULT_LIMITS = ChildLimits()


class WarmChildren:
    """Never more than `most` at a time, working or waiting. May be used from several threads."""

    def __init__(self, most: int, limits: ChildLimits = DEFAULT_LIMITS) -> None:
        remove_abandoned()
        self._most, self._limits = most, limits
        self._lock = threading.Lock()
        self._waiting: list[ChildProcess] = []
        """Those that wait for a task, the one that waits longest first."""
        self._working = 0
        self._closed = False

    def take(self, kind: ChildKind, *, new: bool = False) -> ChildProcess:
        """Return a child for one task of the kind: one that waits for it, or a new one."""
        with self._lock:
            dead = self._drop(lambda child: not child.alive)
            fits = (child for child in reversed(self._waiting) if child.kind == kind and not new)
            fitting = next(fits, None)
            if fitting is not None:
                self._waiting.remove(fitting)
            self._working += 1
            surplus = self._surplus()
        for child in (*dead, *surplus):
            child.close()
        if fitting is not None:
            return fitting
        try:
            return ChildProcess(kind)
        except BaseException:
            with self._lock:
                self._working -= 1
            raise

    def give_back(self, child: ChildProcess, *, fit: bool) -> None:
        """Let the child wait for another task, or end it. One that is ended only because of a limit
        is replaced at once, so that the next task finds Spark started."""
        fit = fit and not child.kind.confined
        worn = fit and self._worn(child)
        left = child if fit else None
        if worn or not fit:
            child.close()
        if worn:
            left = self._successor(child.kind)
        with self._lock:
            self._working -= 1
            room = self._working + len(self._waiting) < self._most
            if left is not None and room and not self._closed:
                left.idle_since = time.monotonic()
                self._waiting.append(left)
                left = None
        if left is not None:
            left.close()

    def _worn(self, child: ChildProcess) -> bool:
        return child.memory_growth() > self._limits.growth or child.tasks >= self._limits.tasks

    def _successor(self, kind: ChildKind) -> ChildProcess | None:
        if self._limits.tasks <= 1:
            return None
        try:
            started = ChildProcess(kind)
        except OSError:
            return None  # the next task says why no process can be started
        started.prepare()
        return started

    def tend(self) -> None:
        """End those that have waited too long."""
        before = time.monotonic() - self._limits.idle_s
        with self._lock:
            idle = self._drop(lambda child: child.idle_since <= before or not child.alive)
        for child in idle:
            child.close()

    def close(self) -> None:
        """End those that wait; those that work are ended when they are given back."""
        with self._lock:
            self._closed = True
            waiting = self._drop(lambda _: True)
        for child in waiting:
            child.close()

    def _surplus(self) -> list[ChildProcess]:
        most = max(self._most - self._working, 0)
        surplus = self._waiting[: len(self._waiting) - most]
        self._waiting = self._waiting[len(surplus) :]
        return surplus

    def _drop(self, unwanted: Callable[[ChildProcess], bool]) -> list[ChildProcess]:
        dropped = [child for child in self._waiting if unwanted(child)]
        self._waiting = [child for child in self._waiting if child not in dropped]
        return dropped
