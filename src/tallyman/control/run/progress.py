"""Progress of the targets of a run, as a terminal shows it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tallyman.domain.history.run import AssetResult
from tallyman.domain.pipeline.target import Target

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
