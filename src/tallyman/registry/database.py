"""The database: where it is, and transactions. Only this file commits what the program does."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from tallyman.errors import DatabaseUnavailable
from tallyman.registry import migrate
from tallyman.registry.server.address import Transaction, brief, connect, hopeless, redacted
from tallyman.registry.server.embedded import Embedded

__all__ = ["Database", "Transaction", "redacted"]

T = TypeVar("T")

PATIENCE = 60.0
"""How long a database that went away may take to come back before a command gives up."""
FIRST_PATIENCE = 10.0
"""One that never answered is more likely misspelled than restarting."""
PAUSE = 0.2
MOST_IDLE = 2
"""Connections kept for the next transaction; a server has few, and many programs want some."""
# No connection, a standby instead of the primary, out of disk or memory, shut down, broken files.
NOT_AVAILABLE = ("08", "25006", "53", "57P", "58")


class Database:
    """`url` for a server that somebody runs; without one, the project's own is started.

    May be used from several threads. A forked child gets connections of its own.
    """

    def __init__(self, url: str | None, state: Path) -> None:
        self._given = url
        self._state = state
        self._embedded: Embedded | None = None
        self._idle: list[Transaction] = []
        self._lock = threading.Lock()
        self._ready = False
        _all.add(self)
        # Who forgets to close a project leaves no connection behind.
        weakref.finalize(self, _close, self._idle)

    @property
    def embedded(self) -> bool:
        return self._given is None

    @property
    def state(self) -> Path:
        return self._state

    # ---- where it is ----------------------------------------------------------------------

    def url(self) -> str:
        """Starts the project's own server if that is the one."""
        return self._given if self._given is not None else self._own().url

    @property
    def owner_url(self) -> str:
        """For migrations: the program's own role may not change tables."""
        return self._given if self._given is not None else self._own().owner_url

    def _own(self) -> Embedded:
        with self._lock:
            if self._embedded is None:
                starting = Embedded(self._state)
                starting.start()
                self._embedded = starting
                atexit.register(self.close)
            return self._embedded

    @property
    def place(self) -> str:
        """For people: never with a password."""
        return Embedded(self._state).place if self._given is None else redacted(self._given)

    def close(self, *, leave_running: bool = False) -> None:
        with self._lock:
            _close(self._idle)
            if self._embedded is not None:
                self._embedded.close(leave_running=leave_running)
                self._embedded = None
                atexit.unregister(self.close)
            self._ready = False

    # ---- transactions ---------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """All of the block or nothing of it. DatabaseUnavailable if the connection is lost: then
        it is unknown which of the two."""
        self._prepare()
        connection, block = self._begin()
        try:
            with ExitStack() as stack:
                stack.push(block)
                yield connection
        except psycopg.Error as error:
            if connection.closed or (error.sqlstate or "").startswith(NOT_AVAILABLE):
                connection.close()
                raise DatabaseUnavailable(self.place, brief(error)) from error
            raise
        finally:
            self._put_back(connection)

    def durably(self, work: Callable[[Transaction], T], patience: float = PATIENCE) -> T:
        """Run `work` in a transaction, again if the connection is lost: it must bear being
        done twice, because a lost reply does not say whether the first try was committed."""
        begun = time.monotonic()
        while True:
            try:
                with self.transaction() as tx:
                    return work(tx)
            except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as error:
                lost = DatabaseUnavailable(self.place, brief(error))
            except DatabaseUnavailable as error:
                lost = error
            allowed = patience if self._ready else min(patience, FIRST_PATIENCE)
            if hopeless(lost.reason) or time.monotonic() - begun > allowed:
                raise lost
            time.sleep(PAUSE)

    def _prepare(self) -> None:
        """The first transaction finds the tables there, or makes them."""
        if not self._ready:
            self._awake(lambda: migrate.ensure(self.owner_url, automatic=self.embedded))
            self._ready = True

    def _begin(self) -> tuple[Transaction, AbstractContextManager[object]]:
        """An idle connection may have been lost while nobody looked; its BEGIN shows it."""
        while True:
            idle = self._take()
            connection = idle or self._awake(lambda: connect(self.url(), self.place))
            block = connection.transaction()
            try:
                block.__enter__()
                return connection, block
            except psycopg.Error as error:
                connection.close()
                if idle is None:
                    raise DatabaseUnavailable(self.place, brief(error)) from error

    def _take(self) -> Transaction | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _put_back(self, connection: Transaction) -> None:
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            connection.close()
        with self._lock:
            if not connection.closed and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _awake(self, ask: Callable[[], T]) -> T:
        """If the project's own server died since it was started, it is started again."""
        try:
            return ask()
        except DatabaseUnavailable:
            if not self.embedded:
                raise
        self._own().start()
        return ask()

    def _forget_in_child(self) -> None:
        """Speaking over the parent's connections, even closing them, would disturb the parent."""
        _of_parents.extend(self._idle)
        self._idle.clear()  # the same list: what closes it at the end must not find them
        self._lock = threading.Lock()
        self._embedded = None
        self._ready = False


def _forget_in_child() -> None:
    for database in list(_all):
        database._forget_in_child()


_all: weakref.WeakSet[Database] = weakref.WeakSet()
_of_parents: list[Transaction] = []
os.register_at_fork(after_in_child=_forget_in_child)


def _close(idle: list[Transaction]) -> None:
    while idle:
        idle.pop().close()
