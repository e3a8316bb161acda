"""The embedded PostgreSQL server: created and started on demand, shared, stopped by its last user.

Each user holds a shared lock on a file, which the kernel releases even after kill -9. The last user
to leave stops the server. Only one process at a time starts or stops it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import psycopg

from tallyman.errors import DatabaseUnavailable
from tallyman.registry.server.address import APPLICATION, brief, connect
from tallyman.registry.server.datafolder import DataFolder, Unusable
from tallyman.registry.server.filelock import FileLock
from tallyman.registry.server.postmaster import PORT, OsAccount, Postmaster

NAME = "tallyman"
"""Name of the database, and of the role the program works as. The superuser only migrates."""
PATIENCE = 60.0
PAUSE = 0.02
MOMENT = 0.3
"""How long a client that has just ended may still be listed."""
# The lock counts this program's processes; this query counts others, such as psql.
OTHER_CLIENTS = """
    SELECT count(*) AS n FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
      AND application_name <> %s
"""


class Embedded:
    def __init__(self, state: Path) -> None:
        self.state = state.resolve()
        self.data = DataFolder(self.state / "postgres")
        self.server = Postmaster(self.data.path, self.state / "postgres.server")
        self._using: FileLock | None = None
        self._socket_folder: Path | None = None

    @property
    def url(self) -> str:
        return self._url(NAME, NAME)

    @property
    def owner_url(self) -> str:
        return self._url("postgres", NAME)

    @property
    def reader_url(self) -> str:
        """The address for outside readers."""
        with connect(self._url("postgres", "postgres"), self.place) as connection:
            connection.execute("ALTER ROLE tallyman_reader LOGIN")
        return self._url("tallyman_reader", NAME)

    def _url(self, role: str, database: str) -> str:
        assert self._socket_folder is not None
        place = quote(os.fsencode(self._socket_folder), safe="/")
        return f"postgresql://{role}@/{database}?host={place}&port={PORT}"

    @property
    def place(self) -> str:
        return f"embedded, {self.state.name}/postgres"

    @property
    def running(self) -> bool:
        """True if a server is running; does not start one."""
        return self.server.alive

    # ---- start --------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server if necessary, and keep it running while this object is open."""
        deadline = time.monotonic() + PATIENCE
        newcomer = self._using is None
        try:
            self.data.prepare()
            with self._one_at_a_time(deadline):
                self._use()
                self._bring_up(deadline)
        except Unusable as error:
            self._leave(newcomer)
            raise self._unavailable(str(error)) from None
        except OSError as error:
            self._leave(newcomer)
            where = f" ({error.filename})" if error.filename else ""
            raise self._unavailable(f"{error.strerror or error}{where}") from error
        except BaseException:
            self._leave(newcomer)
            raise

    def _leave(self, newcomer: bool) -> None:
        if newcomer and self._using is not None:
            self._using.release()
            self._using = None

    def _bring_up(self, deadline: float) -> None:
        account = self.data.account()
        if account is not None:
            self.data.open_the_way(account)
        if not self.data.exists:
            self.data.make(account)
        reason, log_begins = "it is not ready yet", None
        while True:
            if self.server.ready:
                reason = self._answer()
                if not reason:
                    return
            if self.server.alive:
                self.server.end_orphans()
            else:
                reason = self._why_not(log_begins) or reason
                log_begins = self._start_server(account)
            if time.monotonic() > deadline:
                raise self._unavailable(f"{reason}; waited {PATIENCE:.0f} s")
            time.sleep(PAUSE)

    def _start_server(self, account: OsAccount | None) -> int | None:
        """Start the server. Return where its log begins; None if the old server has not quite
        ended."""
        begins = self.server.log_size()
        place = self.data.place_for_socket(account)
        return begins if self.server.start(self.data.programs, place, account) else None

    def _why_not(self, log_begins: int | None) -> str:
        """Return why the last start failed, if trying again may help; otherwise raise."""
        if log_begins is None:
            return ""
        failed = self.server.failure(log_begins)
        if not failed.may_pass:
            raise self._unavailable(f"it did not start: {failed.words}")
        time.sleep(10 * PAUSE)
        return failed.words

    def _answer(self) -> str:
        """Return why the server does not answer; empty if it does and has the database and its
        roles."""
        self._socket_folder = self.server.socket_folder()
        if self._socket_folder is None:
            self.server.stop(PATIENCE)  # nobody can reach it anymore
            return "its socket was deleted"
        try:
            self._ensure_database()
            return ""
        except DatabaseUnavailable as error:
            return error.reason
        except psycopg.OperationalError as error:
            return brief(error)

    def _ensure_database(self) -> None:
        with connect(self._url("postgres", "postgres"), self.place) as connection:
            found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [NAME])
            if found.rowcount:
                return
            with suppress(psycopg.errors.DuplicateObject):
                connection.execute("CREATE ROLE tallyman_app NOLOGIN")
            with suppress(psycopg.errors.DuplicateObject):
                connection.execute("CREATE ROLE tallyman LOGIN IN ROLE tallyman_app")
            with suppress(psycopg.errors.DuplicateObject):
                connection.execute("CREATE ROLE tallyman_reader LOGIN")
            connection.execute("CREATE DATABASE tallyman")

    def _unavailable(self, reason: str) -> DatabaseUnavailable:
        return DatabaseUnavailable(self.place, reason)

    # ---- users --------------------------------------------------------------------------

    @contextmanager
    def _one_at_a_time(self, deadline: float) -> Iterator[None]:
        lock = self._lock("postgres.lock")
        if not lock.exclusive(deadline):
            raise self._unavailable(
                f"another command has been starting or stopping it for {PATIENCE:.0f} s"
            )
        try:
            yield
        finally:
            lock.release()

    def _use(self) -> None:
        if self._using is None or not self._using.held:
            using = self._lock("postgres.users")
            if not using.shared(time.monotonic() + PATIENCE):
                raise self._unavailable(f"another process has locked {using.path}")
            self._using = using

    def _lock(self, name: str) -> FileLock:
        account = self.data.account()
        return FileLock(self.state / name, (account.uid, account.gid) if account else None)

    def close(self, *, leave_running: bool = False) -> None:
        """Stop using the server; the last user stops it."""
        using, self._using = self._using, None
        if using is None or not using.held:
            return
        try:
            with self._one_at_a_time(time.monotonic() + PATIENCE):
                last = using.exclusive()
                if last and not leave_running and not self._has_other_clients():
                    self._stop()
        except (OSError, DatabaseUnavailable):
            pass  # the work is done; the next command stops the server
        finally:
            using.release()

    def _has_other_clients(self) -> bool:
        """True if the database has other clients that do not end in this moment, as psql does when
        its command returns."""
        until = time.monotonic() + MOMENT
        while self._other_clients():
            if time.monotonic() > until:
                return True
            time.sleep(PAUSE)
        return False

    def _other_clients(self) -> int:
        """Count other clients of the database, such as psql or an Iceberg reader."""
        try:
            with connect(self.owner_url, self.place) as connection:
                row = connection.execute(OTHER_CLIENTS, [APPLICATION]).fetchone()
                return int(row["n"]) if row else 0
        except (DatabaseUnavailable, psycopg.Error):
            return 0

    def _stop(self) -> None:
        if self.server.stop(PATIENCE) and self._socket_folder not in (None, self.data.path):
            with suppress(OSError):
                os.rmdir(str(self._socket_folder))
