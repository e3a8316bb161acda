"""File locks. The kernel releases them when their process ends, even after kill -9."""

from __future__ import annotations

import errno
import fcntl
import os
import time
import weakref
from pathlib import Path

PAUSE = 0.02


class FileLock:
    """A lock on a file. Two objects exclude each other even within one process."""

    def __init__(self, path: Path, owner: tuple[int, int] | None = None) -> None:
        self.path = path
        self._owner = owner
        self._file: int | None = None
        _all.add(self)

    @property
    def held(self) -> bool:
        return self._file is not None

    def fileno(self) -> int:
        assert self._file is not None
        return self._file

    def shared(self, deadline: float = 0.0) -> bool:
        return self._lock(fcntl.LOCK_SH, deadline)

    def exclusive(self, deadline: float = 0.0) -> bool:
        """Lock exclusively; False if not in time. Gives up this object's shared lock meanwhile."""
        return self._lock(fcntl.LOCK_EX, deadline)

    def _lock(self, kind: int, deadline: float) -> bool:
        before = self._file
        if self._file is None:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            if self._owner is not None:
                os.fchown(self._file, *self._owner)
        while True:
            try:
                fcntl.flock(self._file, kind | fcntl.LOCK_NB)
                return True
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                    self.release()
                    raise
            if time.monotonic() >= deadline:
                if before is None:
                    self.release()
                return False
            time.sleep(PAUSE)

    def release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def is_locked(path: Path) -> bool:
    """True if somebody holds the lock now; creates no file."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(file)


def _forget_in_child() -> None:
    """Release the parent's locks in a forked child, which would otherwise hold them as long as it
    lives."""
    for lock in list(_all):
        lock.release()


_all: weakref.WeakSet[FileLock] = weakref.WeakSet()
os.register_at_fork(after_in_child=_forget_in_child)
