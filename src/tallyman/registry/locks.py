"""Doing something alone: a lock that a process loses when it dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

import psycopg

from tallyman.errors import DatabaseUnavailable
from tallyman.registry.address import brief, connect
from tallyman.registry.database import Database

WAIT = "SELECT pg_advisory_lock(x'7A110005'::integer, hashtext(%(run)s))"
TRY = "SELECT pg_try_advisory_lock(x'7A110005'::integer, hashtext(%(run)s)) AS got"
UNLOCK = "SELECT pg_advisory_unlock(x'7A110005'::integer, hashtext(%(run)s))"


@contextmanager
def alone_with(database: Database, run: UUID, *, wait: bool) -> Iterator[bool]:
    """Nobody else closes the run meanwhile. False: somebody else does, and it was not waited for.
    No transaction is open: what is done may take its time."""
    connection = connect(database.url(), database.place)
    given = {"run": str(run)}
    try:
        row = None if wait else connection.execute(TRY, given).fetchone()
        if wait:
            connection.execute(WAIT, given)
        if row is not None and not row["got"]:
            yield False
            return
        try:
            yield True
        finally:
            with suppress(psycopg.Error):
                connection.execute(UNLOCK, given)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(database.place, brief(error)) from error
    finally:
        connection.close()
