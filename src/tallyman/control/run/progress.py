"""Progress of making one target, reported to the terminal, the registry and the stopwatch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tallyman.control.run.deadline import Deadline
from tallyman.control.run.journal import Journal
from tallyman.control.run.watch import Watch
from tallyman.domain.history.run import AssetResult
from tallyman.domain.pipeline.target import Target
from tallyman.engine.observer import Observer
from tallyman.errors import RunCanceled

Listener = Callable[[str, str, AssetResult | None], None]
"""Called with a target, its current phase, and its result once there is one."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The listener of a run. Targets are made in several threads; it is called by one at a time."""

    listen: Listener
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def show(self, target: Target, phase: str, result: AssetResult | None = None) -> None:
        with self._lock:
            self.listen(str(target), phase, result)


@dataclass(frozen=True, slots=True)
class TargetProgress(Observer):
    """The observer of a target: shows phases, records completed steps, and stops on a cancel."""

    target: Target
    journal: Journal
    watch: Watch
    terminal: Terminal
    deadline: Deadline

    def phase(self, name: str) -> None:
        if self.canceled:
            raise RunCanceled(self.journal.run.name)
        self.terminal.show(self.target, name)

    def step(self, step_id: str) -> None:
        self.journal.step(self.target, step_id)

    @property
    def canceled(self) -> bool:
        return self.watch.stop.is_set() or self.deadline.passed
