"""Databases for test projects: one PostgreSQL server per test process, a copied database each."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg

from tallyman.registry.database import Database
from tallyman.registry.server.address import APPLICATION

OWN = "/tallyman?"
END_SESSIONS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""The bytes that have to be free there; all databases of a session take a third of it."""


def in_memory() -> str | None:
    """A folder that is not on a disk, if there is one: a database is some 300 files, and making
    them there takes a tenth of the time."""
    there = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    return str(MEMORY) if there and shutil.disk_usage(MEMORY).free > ROOM else None


class Databases:
    """The server's own database stays empty: the others are copies of it."""

    def __init__(self) -> None:
        # Not below pytest's own folder, which the next session on this machine closes to others:
        # the server runs as another user if the tests run as root.
        self._folder = tempfile.TemporaryDirectory(
            prefix="databases-", dir=in_memory(), ignore_cleanup_errors=True
        )
        self._server = Database(None, Path(self._folder.name))
        self._numbers = count()
        with self._server.transaction():
            pass  # makes the tables
        self._server.close(leave_running=True)  # a copy needs that nobody is connected
        self._address = self._server.url()
        # Nothing here has to survive a power cut, and a copy would wait for the disk. No database
        # lives long enough for a clean-up to be of use.
        with self._maintenance() as admin:
            for name in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum"):
                admin.execute(f"ALTER SYSTEM SET {name} = off".encode())
            admin.execute("SELECT pg_reload_conf()")

    def new(self, like: str | None = None) -> str:
        """The address of a database that nobody else uses; its role may not change tables. With the
        address of another one, to which nobody is connected: a copy of it."""
        name = f"test_{next(self._numbers)}"
        template = _name(like) if like else "tallyman"
        with self._maintenance() as admin:
            copy = f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY"
            admin.execute(copy.encode())
        return self._address.replace(OWN, f"/{name}?")

    def drop(self, address: str) -> None:
        with self._maintenance() as admin:
            admin.execute(f"DROP DATABASE IF EXISTS {_name(address)} WITH (FORCE)".encode())

    def close(self) -> None:
        """Stop the server, also if a test left a connection open."""
        with contextlib.suppress(psycopg.OperationalError), self._maintenance() as admin:
            admin.execute(END_SESSIONS)
        self._server.close()
        self._folder.cleanup()

    @contextlib.contextmanager
    def _maintenance(self) -> Iterator[psycopg.Connection]:
        """As the program itself: a server with another client is not stopped."""
        address = self._server.owner_url.replace(OWN, "/postgres?")
        with psycopg.connect(address, autocommit=True, application_name=APPLICATION) as admin:
            yield admin


def _name(address: str) -> str:
    return address.partition("?")[0].rpartition("/")[2]


def owner_of(address: str) -> str:
    """The same database as the owner of its tables, who is not held by their guards."""
    assert "//tallyman@" in address
    return address.replace("//tallyman@", "//postgres@")
