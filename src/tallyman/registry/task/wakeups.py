"""Wake-ups from PostgreSQL: one connection that listens, for all threads that wait."""

from __future__ import annotations

import select
import socket
import threading

import psycopg

from tallyman.errors import DatabaseUnavailable
from tallyman.registry.database import Database
from tallyman.registry.server.address import connect

CHANNEL = "tallyman_queue"
PAUSE_S = 0.5
"""How long the listening thread waits before it connects again."""


class Wakeups:
    """Threads wait here for a notification. It only shortens the wait: who waits looks again by
    itself after a while, also if the connection is lost."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changed = threading.Condition()
        self._seen = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._bell = socket.socketpair()

    def position(self) -> int:
        """The number of notifications so far: ask before looking, then wait from there."""
        with self._changed:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._listen, name="wakeups", daemon=True)
                self._thread.start()
            return self._seen

    def wait(self, since: int, timeout: float) -> None:
        """Wait until there is a notification after the position, or for `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._seen > since or self._ended.is_set(), timeout)

    @property
    def closed(self) -> bool:
        return self._ended.is_set()

    def notify(self) -> None:
        with self._changed:
            self._seen += 1
            self._changed.notify_all()

    def close(self) -> None:
        self._ended.set()
        self.notify()
        self._bell[0].close()
        if self._thread is not None:
            self._thread.join()
        self._bell[1].close()

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                with connect(self._database.url(), self._database.place) as connection:
                    connection.execute(f"LISTEN {CHANNEL}".encode())
                    self.notify()  # something may have come while nobody listened
                    while not self._ended.is_set():
                        select.select((connection.fileno(), self._bell[1]), (), ())
                        if list(connection.notifies(timeout=0)):
                            self.notify()
            except (psycopg.Error, DatabaseUnavailable):
                self._ended.wait(PAUSE_S)
