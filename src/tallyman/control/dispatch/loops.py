"""The loops of a server: threads that take the steps until they are asked to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tallyman.control.dispatch import steps
from tallyman.errors import TallymanError
from tallyman.registry.database import Database

log = logging.getLogger("tallyman.dispatch")


@dataclass(slots=True)
class Loop:
    """One step, taken again at once while it finds work, else after `every_s` or a nudge."""

    name: str
    every_s: float
    step: Callable[[], int]
    taken: int = 0
    found: int = 0
    errors: int = 0
    nudge: threading.Event = field(default_factory=threading.Event)

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.nudge.clear()
            if not self._take():
                self.nudge.wait(self.every_s)

    def _take(self) -> int:
        self.taken += 1
        try:
            found = self.step()
        except TallymanError as error:
            # The database may come back; rows that were locked are free again.
            self.errors += 1
            log.warning("%s: %s", self.name, error)
            return 0
        except Exception:
            self.errors += 1
            log.exception("%s failed", self.name)
            return 0
        self.found += found
        return found


class Loops:
    """All loops of one server. They share nothing with those of other servers but the database."""

    def __init__(
        self,
        database: Database,
        *,
        keep_s: float = steps.KEEP_S,
        others: Sequence[Loop] = (),
    ) -> None:
        self.loops = {
            loop.name: loop
            for loop in (
                Loop("requeue", 0.5, lambda: steps.requeue(database)),
                Loop("reaper", 0.5, lambda: steps.reap(database)),
                Loop("schedule", 1.0, lambda: steps.tick(database)),
                Loop("upkeep", 60.0, lambda: steps.upkeep(database, keep_s=keep_s)),
                *others,
            )
        }
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for loop in self.loops.values():
            thread = threading.Thread(target=loop.run, args=(self._stop,), name=loop.name)
            thread.start()
            self._threads.append(thread)

    def wake(self, name: str) -> None:
        """Take the step of a loop without waiting for the next look."""
        self.loops[name].nudge.set()

    @property
    def alive(self) -> bool:
        return bool(self._threads) and all(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Let every loop finish its step, and end."""
        self._stop.set()
        for loop in self.loops.values():
            loop.nudge.set()
        for thread in self._threads:
            thread.join()
