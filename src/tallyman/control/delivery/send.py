"""Send spooled events, in the background of a run or in the foreground.

Events are sent in spool order, by one process per project at a time, and each is retried until it
is taken. A process killed between the receiver's answer and our mark sends that one event again:
the receiver gets every event at least once, and twice only in that case.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from tallyman.control.delivery.destination import Destination, disabled
from tallyman.control.delivery.outbox import Outbox, Tally, Trouble, TryOnce, drain
from tallyman.errors import DestinationUnusable, LineageNotSent, NoDestination
from tallyman.on_demand import OnDemand
from tallyman.registry.spool import sole_sender

if TYPE_CHECKING:
    from tallyman.control.delivery import deliver
else:
    deliver = OnDemand("tallyman.control.delivery.deliver")

PATIENCE = 2.0
"""Seconds by which a run may be delayed so that a healthy receiver has all events when it ends."""
FIRST_PAUSE, MOST_PAUSE = 1.0, 60.0
BUSY_PAUSE = 0.1
BUSY_PATIENCE = 15.0
"""Seconds to wait for another sender; longer than one try of that process."""


class _PassOutcome(Enum):
    """The outcome of one pass over the spool."""

    WELL = "well"
    BADLY = "badly"
    BUSY = "busy"
    NOWHERE = "nowhere"


class Sender:
    """A background thread that sends events during a run. It never raises, and the run does not
    wait for it before `close`; unsent events stay in the spool."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._destination: Destination | None = None
        self._trouble: str | None = None
        """The reason the last try failed."""
        self._refused = 0
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="tallyman-lineage", daemon=True)

    def start(self) -> Sender:
        if not disabled():
            self._thread.start()
        return self

    def wake(self) -> None:
        """Wake the thread after new events were committed."""
        self._woken.set()

    def close(self, patience_s: float = PATIENCE) -> str | None:
        """Stop the thread. Waits briefly for a healthy receiver, and not at all for a failing one.
        Returns a line for the user if events stay in the spool."""
        if not self._thread.is_alive():
            return None
        if self._trouble is not None:
            patience_s = 0
            self._over.set()
        self._closing.set()
        self._woken.set()
        # The second half is for the event in flight: it should not be sent twice.
        self._thread.join(patience_s / 2)
        self._over.set()
        self._thread.join(patience_s / 2)
        with contextlib.suppress(Exception):
            return self._line()
        return None

    def _line(self) -> str | None:
        waiting = self.outbox.waiting(0) if self._destination or self._trouble else 0
        place = self._destination.shown if self._destination else "a receiver"
        notes = []
        if self._refused:
            refused = f"{_events(self._refused)} refused by {place}"
            notes.append(f"{refused} (tallyman lineage status)")
        if waiting:
            reason = self._trouble or "the run ended before all were sent"
            notes.append(f"{_events(waiting)} kept for {place}: {reason} (tallyman lineage flush)")
        return "lineage: " + "; ".join(notes) if notes else None

    def _work(self) -> None:
        pause = FIRST_PAUSE
        while not self._over.is_set():
            self._woken.clear()
            closing = self._closing.is_set()  # read first: include events added before close
            outcome = self._go()
            if outcome is _PassOutcome.BUSY:
                self._over.wait(BUSY_PAUSE)
            elif closing or outcome is _PassOutcome.NOWHERE:
                return
            elif outcome is _PassOutcome.WELL:
                pause = FIRST_PAUSE
                self._woken.wait()
            else:
                self._closing.wait(pause)
                pause = min(2 * pause, MOST_PAUSE)

    def _go(self) -> _PassOutcome:
        """Run one pass; an error here must not fail the run."""
        try:
            return self._try()
        except Exception as error:
            self._trouble = str(error) or type(error).__name__
            return _PassOutcome.BADLY

    def _try(self) -> _PassOutcome:
        broken: Trouble | None = None
        try:
            self._destination = self._destination or self.outbox.destination()
        except DestinationUnusable as error:
            broken = Trouble(str(error))  # reported with the event that waits for it
        destination = self._destination
        if destination is None and broken is None:
            return _PassOutcome.NOWHERE

        def try_once(body: Mapping[str, Any]) -> Trouble | None:
            found = deliver.deliver(destination, body) if destination is not None else broken
            self._trouble = found.reason if found and not found.refused else None
            return found

        return self._through(try_once)

    def _through(self, try_once: TryOnce) -> _PassOutcome:
        outbox = self.outbox
        if not outbox.waiting(0):
            self._trouble = None
            return _PassOutcome.WELL
        with sole_sender(outbox.database, outbox.owner) as spool:
            if spool is None:
                return _PassOutcome.BUSY
            tally = drain(spool, outbox.owner, try_once, lambda _: not self._over.is_set())
        self._refused += tally.refused
        return _PassOutcome.BADLY if tally.trouble else _PassOutcome.WELL


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    destination: str
    sent: int
    refused: int
    waiting: int


def flush(
    outbox: Outbox, *, refused: bool = False, listen: Callable[[int], None] = lambda _: None
) -> Flushed:
    """Send everything now, or raise LineageNotSent at the first event that is not taken. With
    `refused`, also retry events that were refused. `listen` gets the number sent so far."""
    destination = outbox.destination()
    if destination is None:
        raise NoDestination(outbox.waiting(), disabled=disabled())
    if refused:
        outbox.take_back()

    def go_on(so_far: Tally) -> bool:
        listen(so_far.sent)
        return True

    tally = _alone(outbox, lambda body: deliver.deliver(destination, body), go_on)
    place, left = destination.shown, outbox.waiting()
    if tally.trouble is not None:
        raise LineageNotSent(place, tally.sent, left, tally.trouble)
    return Flushed(destination=place, sent=tally.sent, refused=tally.refused, waiting=left)


def _alone(outbox: Outbox, try_once: TryOnce, go_on: Callable[[Tally], bool]) -> Tally:
    """Send once no other process is sending; that process may do all the work meanwhile."""
    left, deadline = outbox.waiting(), time.monotonic() + BUSY_PATIENCE
    while left:
        with sole_sender(outbox.database, outbox.owner) as spool:
            if spool is not None:
                return drain(spool, outbox.owner, try_once, go_on)
        time.sleep(BUSY_PAUSE)
        before, left = left, outbox.waiting()
        if left < before:
            deadline = time.monotonic() + BUSY_PATIENCE
        elif time.monotonic() > deadline:
            return Tally(trouble="another process is sending them and makes no progress")
    return Tally()


def _events(count: int) -> str:
    return f"{count:,} event" if count == 1 else f"{count:,} events"
