"""One PostgreSQL server on a data folder: check, start and stop it, and read its log.

Does not use pg_ctl, which passes paths to a shell and gives up on a long recovery. The server and
all its children hold a lock on a file, so that "alive" does not depend on a process id, which may
be reused, or belong to another container.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tallyman.registry.server.filelock import FileLock, is_locked

PORT = 5432
SOCKET = f".s.PGSQL.{PORT}"
PAUSE = 0.02
GRACE = 2.0
"""Seconds a child of a killed server has to notice that, before it is ended."""
LOG_LIMIT = 4 * 2**20
# The program and its paths are arguments: the shell interprets none of them.
SPAWN = '"$@" </dev/null >>log 2>&1 &'
COMPLAINT = re.compile(r"(?:FATAL|PANIC): +(.+)|LOG: +((?:invalid|unrecog|syntax|could not).+)")
# Messages to clients, not about the server itself.
TO_CLIENTS = re.compile(r"the database system is|terminating connection")
OLD_ONE_LEAVING = re.compile(r"pre-existing shared memory|lock file .* already exists")


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The server ended before it was ready, with this message."""

    words: str
    may_pass: bool


@dataclass(frozen=True, slots=True)
class OsAccount:
    """The account that the server runs as: PostgreSQL refuses to run as root."""

    uid: int
    gid: int


class Postmaster:
    def __init__(self, folder: Path, lock: Path) -> None:
        self.folder = folder
        self.lock = lock
        self._orphaned_at: float | None = None

    # ---- state --------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """True also while it starts or stops, and while children of a killed server remain."""
        return is_locked(self.lock) or self.process() is not None

    def process(self) -> psutil.Process | None:
        """Return the server's process; its folder distinguishes it from another process with the
        same id."""
        lines = self._pid_file()
        try:
            process = psutil.Process(int(lines[0]))
            mine = os.path.samefile(process.cwd(), self.folder)
            return process if mine and process.name() == "postgres" else None
        except (IndexError, ValueError, OSError, psutil.Error):
            return None

    @property
    def ready(self) -> bool:
        lines = self._pid_file()
        return len(lines) > 7 and lines[7].strip() == "ready" and self.alive

    def socket_folder(self) -> Path | None:
        """Return the folder of the socket. If the data folder was moved, the socket moved with
        it."""
        lines = self._pid_file()
        recorded = [Path(lines[4])] if len(lines) > 4 and lines[4] else []
        return next((f for f in (self.folder, *recorded) if _is_socket(f / SOCKET)), None)

    def _pid_file(self) -> list[str]:
        try:
            return os.fsdecode((self.folder / "postmaster.pid").read_bytes()).split("\n")
        except FileNotFoundError:
            return []

    # ---- starting and stopping ----------------------------------------------------------

    def start(self, programs: Path, socket_folder: Path, account: OsAccount | None) -> bool:
        """Start the server without waiting; if it ends again, `failure` says why. False if not
        tried."""
        lock = FileLock(self.lock, (account.uid, account.gid) if account else None)
        if not lock.exclusive():
            return False
        try:
            self._clear_away(socket_folder)
            self._rotate_log()
            run = ["/bin/sh", "-c", SPAWN, "sh", str(programs / "postgres"), "-D", str(self.folder)]
            settings = {
                "listen_addresses": "",
                "port": str(PORT),
                "unix_socket_directories": str(socket_folder),
                "unix_socket_permissions": "0700",
                "log_checkpoints": "off",
            }
            run += [f"--{name}={value}" for name, value in settings.items()]
            self._spawn(run, lock.fileno(), account)
            return True
        finally:
            lock.release()

    def _spawn(self, run: list[str], lock: int, account: OsAccount | None) -> None:
        subprocess.run(
            run,
            cwd=self.folder,
            env=environment(),
            pass_fds=(lock,),
            start_new_session=True,  # so that Ctrl-C does not reach it
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            umask=0o077,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )

    def _clear_away(self, socket_folder: Path) -> None:
        """Remove what a killed server left if its process id is in use again: the next server would
        take it for alive. Otherwise the server checks this itself."""
        lines = self._pid_file()
        with suppress(IndexError, ValueError):
            if not psutil.pid_exists(int(lines[0])) or self.process() is not None:
                return
            (self.folder / "postmaster.pid").unlink(missing_ok=True)
            for name in (SOCKET, f"{SOCKET}.lock"):
                (socket_folder / name).unlink(missing_ok=True)

    def stop(self, patience: float) -> bool:
        """Stop the server: clients are disconnected, committed work is kept."""
        deadline = time.monotonic() + patience
        process = self.process()
        if process is None:
            return not self.alive
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGINT)
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE)
        return True

    def end_orphans(self) -> None:
        """End children of a killed server: they keep the data locked while they are busy."""
        if self.process() is not None or not is_locked(self.lock):
            self._orphaned_at = None
            return
        now = time.monotonic()
        if self._orphaned_at is None:
            self._orphaned_at = now
        if now - self._orphaned_at < GRACE:
            return
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                said = "".join(process.cmdline()[:1])  # empty if the process is ending
                child = process.name() == "postgres" and said.startswith("postgres: ")
                if child and os.path.samefile(process.cwd(), self.folder):
                    process.send_signal(signal.SIGQUIT)

    # ---- log ----------------------------------------------------------------------------

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def log_size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def failure(self, since: int) -> StartFailed:
        """Return the last messages of a start whose log begins at `since`."""
        with self.log.open("rb") as file:
            file.seek(since if since <= self.log_size() else 0)
            lines = file.read().decode("utf-8", "replace").splitlines()
        found = [COMPLAINT.search(line) for line in lines if not TO_CLIENTS.search(line)]
        said = "; ".join([match[1] or match[2] for match in found if match][-2:])
        if said:
            return StartFailed(said, may_pass=bool(OLD_ONE_LEAVING.search(said)))
        rest = [line.strip() for line in lines if line.strip()]
        killed = all("LOG:" in line or TO_CLIENTS.search(line) for line in rest)
        return StartFailed("; ".join(rest[-2:]) or "it ended without a message", may_pass=killed)

    def _rotate_log(self) -> None:
        if self.log_size() > LOG_LIMIT:
            self.log.replace(self.folder / "log.old")


def environment() -> Mapping[str, str]:
    """Drop PG* variables, which are meant for clients, and use English messages, because they are
    parsed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C"}


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
