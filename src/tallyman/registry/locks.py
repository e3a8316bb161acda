"""Exclusive locks that a process loses when it dies, held without an open transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum

import psycopg

from tallyman.errors import DatabaseUnavailable
from tallyman.registry.database import Database, Transaction
from tallyman.registry.server.address import brief, connect

TRY = "SELECT pg_try_advisory_lock(%(kind)s, hashtext(%(name)s)) AS got"
WAIT = "SELECT pg_advisory_lock(%(kind)s, hashtext(%(name)s)), true AS got"
# Shared: many may be in the way of the one that wants to be alone.
SHARE = "SELECT pg_try_advisory_xact_lock_shared(%(kind)s, hashtext(%(name)s)) AS got"
UNLOCK = "SELECT pg_advisory_unlock(%(kind)s, hashtext(%(name)s))"


class Alone(IntEnum):
    SENDING = 0x7A11_0004
    """Sending the events of a pipeline."""
    CLOSING = 0x7A11_0005
    """Closing a run."""


def keep_out(tx: Transaction, kind: Alone, name: str) -> bool:
    """Keep others from being alone until the transaction ends; False if somebody is."""
    row = tx.execute(SHARE, {"kind": int(kind), "name": name}).fetchone()
    return row is not None and bool(row["got"])


@contextmanager
def alone(
    database: Database, kind: Alone, name: str, *, wait: bool = False
) -> Iterator[Transaction | None]:
    """Hold the lock on a separate connection, on which every statement is its own transaction;
    losing the connection releases the lock. Yields None if another process holds the lock and
    `wait` is False."""
    connection = connect(database.url(), database.place)
    given = {"kind": int(kind), "name": name}
    try:
        row = connection.execute(WAIT if wait else TRY, given).fetchone()
        if row is None or not row["got"]:
            yield None
            return
        try:
            yield connection
        finally:
            # Unlock explicitly: the server notices a closed connection a little later.
            with suppress(psycopg.Error):
                connection.execute(UNLOCK, given)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(database.place, brief(error)) from error
    finally:
        connection.close()
