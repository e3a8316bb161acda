"""Doing something alone: locks that a process loses when it dies, held without a transaction."""

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
UNLOCK = "SELECT pg_advisory_unlock(%(kind)s, hashtext(%(name)s))"


class Alone(IntEnum):
    SENDING = 0x7A11_0004
    """The events of a project."""
    CLOSING = 0x7A11_0005
    """A run that was decided on."""


@contextmanager
def alone(
    database: Database, kind: Alone, name: str, *, wait: bool = False
) -> Iterator[Transaction | None]:
    """A connection of its own, on which every statement is a transaction; whoever loses it loses
    the lock with it. None: another process is at it, and it was not waited for."""
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
            # The server notices a closed connection a little later than this.
            with suppress(psycopg.Error):
                connection.execute(UNLOCK, given)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(database.place, brief(error)) from error
    finally:
        connection.close()
