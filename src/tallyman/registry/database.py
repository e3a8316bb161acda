"""The database: its address, and transactions. Only this file commits the program's work."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from tallyman.errors import DatabaseUnavailable
from tallyman.registry import migrate
from tallyman.registry.server.address import (
    SECRETS,
    Transaction,
    brief,
    connect,
    hopeless,
    redacted,
    split_address,
)
from tallyman.registry.server.embedded import Embedded

# A comma means "or". `datasets` stands for all of our own tables.
READER = """
    SELECT r.rolname AS name FROM pg_roles r
    WHERE r.rolcanlogin AND NOT r.rolsuper AND NOT r.rolcreaterole
      AND has_database_privilege(r.oid, current_database(), 'CONNECT')
      AND has_table_privilege(r.oid, 'iceberg_tables', 'SELECT')
      AND has_table_privilege(r.oid, 'iceberg_namespace_properties', 'SELECT')
      AND NOT has_table_privilege(r.oid, 'iceberg_tables', 'INSERT, UPDATE, DELETE, TRUNCATE')
      AND NOT has_table_privilege(
          r.oid, 'iceberg_namespace_properties', 'INSERT, UPDATE, DELETE, TRUNCATE')
      AND NOT has_table_privilege(r.oid, 'datasets', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')
    ORDER BY (r.rolname = current_user) DESC, (r.rolname = 'tallyman_reader') DESC, r.rolname
    LIMIT 1
"""

__all__ = ["Database", "Transaction", "redacted"]

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds to wait for a database that stopped answering before a command gives up."""
FIRST_PATIENCE = 10.0
"""Seconds to wait on the first connection: a wrong address is more likely than a restart."""
PAUSE = 0.2
MOST_IDLE = 2
"""Idle connections kept for the next transaction; few, because a server has few for many
programs."""
# SQLSTATE classes: no connection, read-only standby, out of disk or memory, shutdown, damaged
# files.
NOT_AVAILABLE = ("08", "25006", "53", "57P", "58")


class Database:
    """A database: the server at `url`, or without one the project's embedded server.

    May be used from several threads. A forked child opens its own connections.
    """

    def __init__(self, url: str | None, state: Path, *, most_idle: int = MOST_IDLE) -> None:
        self._given = url
        self.most_idle = most_idle
        self.state = state
        self._embedded: Embedded | None = None
        self._idle: list[Transaction] = []
        self._lock = threading.Lock()
        self._ready = False
        _all.add(self)
        # Close idle connections even if the project is never closed.
        weakref.finalize(self, _close, self._idle)

    @property
    def embedded(self) -> bool:
        return self._given is None

    @property
    def is_new(self) -> bool:
        """True if the embedded server has no database yet: nothing has been recorded."""
        return self.embedded and not Embedded(self.state).data.exists

    # ---- address --------------------------------------------------------------------------

    def url(self) -> str:
        """Return the address; starts the embedded server if necessary."""
        return self._given if self._given is not None else self._own().url

    @property
    def owner_url(self) -> str:
        """The address for migrations: the program's own role may not change tables."""
        return self._given if self._given is not None else self._own().owner_url

    def reader_url(self) -> str | None:
        """Return the address of a role that can only read what outside readers need; None if a
        server that is not ours has no such role. Creates or migrates the tables first."""
        self._prepare()
        return reader_address(self._given) if self._given is not None else self._own().reader_url

    def _own(self) -> Embedded:
        with self._lock:
            if self._embedded is None:
                starting = Embedded(self.state)
                starting.start()
                self._embedded = starting
                atexit.register(self.close)
            return self._embedded

    @property
    def place(self) -> str:
        """The address for people, without a password."""
        return Embedded(self.state).place if self._given is None else redacted(self._given)

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
        """Run the block in one transaction. Raises DatabaseUnavailable if the connection is lost;
        then it is unknown whether the transaction was committed."""
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
        """Run `work` in a transaction, and repeat it if the connection is lost. `work` must be safe
        to repeat, because a lost reply does not say whether the first try was committed."""
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
        """Create or migrate the tables before the first transaction, if necessary."""
        if not self._ready:
            self._awake(lambda: migrate.ensure(self.owner_url, automatic=self.embedded))
            self._ready = True

    @contextmanager
    def made_meanwhile(self) -> Iterator[None]:
        """Make the database in another thread while the caller does something else, such as
        starting Spark."""

        def make() -> None:
            # The caller gets the error when it uses the database.
            with suppress(Exception):
                self._prepare()

        thread = threading.Thread(target=make, name="database")
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def _begin(self) -> tuple[Transaction, AbstractContextManager[object]]:
        """Begin a transaction. An idle connection may have been lost; its BEGIN shows this, and
        another one is used."""
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
            if not connection.closed and len(self._idle) < self.most_idle:
                self._idle.append(connection)
                return
        connection.close()

    def _awake(self, ask: Callable[[], T]) -> T:
        """Call `ask`; if the embedded server has died since it was started, start it again
        first."""
        try:
            return ask()
        except DatabaseUnavailable:
            if not self.embedded:
                raise
        self._own().start()
        return ask()

    def _forget_in_child(self) -> None:
        """Drop the parent's connections without closing them: closing would disturb the parent."""
        _of_parents.extend(self._idle)
        self._idle.clear()  # in place: the finalizer holds the same list
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


def reader_address(url: str) -> str | None:
    """Return the address with a role that can only read what outside readers need, without a
    password; None if the server has no such role."""
    with connect(url) as connection:
        found = connection.execute(READER).fetchone()
    if found is None:
        return None
    known = {k: v for k, v in (split_address(url) or {}).items() if k not in SECRETS}
    return make_conninfo(**known | {"user": str(found["name"])})
