"""Timings: how long each part of making a target took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tallyman.engine.observer import Observer


@dataclass
class Stopwatch:
    """Measures phases and steps. Phases follow each other and add up to the whole. Steps divide the
    same time: the steps of a segment run in one Spark job, so a time covers all steps up to the one
    it names."""

    first: str = "opening"
    clock: Callable[[], float] = time.monotonic
    _laps: list[dict[str, Any]] = field(default_factory=list)
    _phase: str = field(init=False)
    _phase_began: float = field(init=False)
    _step_began: float = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._phase = self.first
        self._phase_began = self._step_began = self.clock()

    def phase(self, name: str) -> None:
        with self._lock:
            self._end_phase()
            if name == "evaluating":
                self._step_began = self._phase_began
            self._phase = name

    def step(self, name: str) -> None:
        """End a step. Threads may report the steps of a traced asset in any order."""
        with self._lock:
            now = self.clock()
            took, self._step_began = now - self._step_began, now
            earlier = [lap for lap in self._laps if lap.get("up_to_step") == name]
            if earlier:
                earlier[-1]["ms"] += _ms(took)
            else:
                self._laps.append({"up_to_step": name, "ms": _ms(took)})

    def stop(self) -> tuple[dict[str, Any], ...]:
        """Return the laps: phases first, each group in the order reported."""
        with self._lock:
            self._end_phase()
            return tuple(sorted(self._laps, key=lambda lap: "up_to_step" in lap))

    def _end_phase(self) -> None:
        now = self.clock()
        self._laps.append({"phase": self._phase, "ms": _ms(now - self._phase_began)})
        self._phase_began = now


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


@dataclass(frozen=True, slots=True)
class TimedObserver(Observer):
    """An observer that measures phases and steps, and forwards them."""

    stopwatch: Stopwatch
    observer: Observer

    def phase(self, name: str) -> None:
        self.stopwatch.phase(name)
        self.observer.phase(name)

    def step(self, step_id: str) -> None:
        self.stopwatch.step(step_id)
        self.observer.step(step_id)

    @property
    def canceled(self) -> bool:
        return self.observer.canceled
