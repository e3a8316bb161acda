"""A child process as its worker sees it: started with a scrubbed environment, given tasks, read,
ended."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from tallyman.worker.child import CONFINED, PIPE_VARIABLE

KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "JAVA_HOME", "JAVA_TOOL_OPTIONS")
"""The variables that a child gets from its worker: no token, no address of a database."""
LONGEST_LINE = 16 * 1024 * 1024
PREFIX = "tallyman-child-"
SAID = ".said"
"""The ending of the file that a child prints to. The child and its worker keep it locked."""
TAIL = 2000
"""The characters of what a child printed that are kept if it fails."""


@dataclass(frozen=True, slots=True)
class ChildKind:
    """The kind of task a process is bound to by its first one: it may do others of this kind only.

    `env` is the environment of the slot. `process` is `task["process"]`, the settings that cannot
    change once they are in use, such as Spark's. Both as JSON. `confined` is for code of users: the
    process reaches nothing but its folder, and does one task."""

    entry: str
    env: str
    process: str
    confined: bool = False

    @classmethod
    def of(cls, entry: str, task: Mapping[str, Any], *, confined: bool = False) -> ChildKind:
        env, process = (task.get("slot") or {}).get("env", {}), task.get("process") or {}
        return cls(
            entry, json.dumps(env, sort_keys=True), json.dumps(process, sort_keys=True), confined
        )


class ChildProcess:
    """One child, in a session and a folder of its own. The folder is HOME and has two others in it:
    `tmp` for TMPDIR, and `work`, the current one, which is emptied for each task."""

    def __init__(self, kind: ChildKind) -> None:
        self.kind = kind
        self.tasks = 0
        """How many tasks it was given."""
        self.idle_since = time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
        for name in ("work", "tmp"):
            (self.folder / name).mkdir()
        self._said = _locked(self.folder / SAID)
        self._said_before = 0
        self._memory_at_first: int | None = None
        self._pipe, writing = os.pipe()
        self._buffer = bytearray()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tallyman.worker.child", *([CONFINED] * kind.confined)],
                cwd=self.folder / "work",
                env={**self._environment(), PIPE_VARIABLE: str(writing)},
                stdin=subprocess.PIPE,
                stdout=self._said,
                stderr=self._said,
                pass_fds=(writing,),
                start_new_session=True,
            )
        except BaseException:
            self._put_away()
            raise
        finally:
            os.close(writing)

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        place = {"HOME": str(self.folder), "TMPDIR": str(self.folder / "tmp")}
        return {**kept, **json.loads(self.kind.env), **place}

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    # ---- orders -----------------------------------------------------------------------------

    def prepare(self) -> None:
        """Let the child get ready for the tasks of its kind."""
        self._order({"entry": self.kind.entry, "process": json.loads(self.kind.process)})

    def begin(self, task: Mapping[str, Any]) -> None:
        """Give the child a task. What it printed before belongs to others."""
        self.tasks += 1
        self._said_before = self._said.seek(0, os.SEEK_END)
        for path in (self.folder / "work").iterdir():
            _remove(path)
        self._order({"number": self.tasks, "entry": self.kind.entry, "task": dict(task)})

    def _order(self, order: Mapping[str, Any]) -> None:
        with suppress(BrokenPipeError):  # it died: its exit code says so
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    # ---- answers ----------------------------------------------------------------------------

    def messages(self, timeout_s: float) -> tuple[list[dict[str, Any]], bool]:
        """Return what the child sent about its current task within the time, and true if nothing
        more will come."""
        if not select.select((self._pipe,), (), (), max(timeout_s, 0))[0]:
            return [], False
        chunk = os.read(self._pipe, 1 << 20)
        self._buffer += chunk
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        if len(rest) > LONGEST_LINE:
            return [], True
        found = (_parsed(line) for line in lines)
        return [one for one in found if one and one.get("number") == self.tasks], not chunk

    def tail(self) -> str:
        """The end of what the child printed during its current task."""
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(self._said_before, size - TAIL))
        return self._said.read().decode(errors="replace").strip()

    # ---- life and death ---------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def memory_growth(self) -> int:
        """The bytes by which the child, and what it started, grew since this was asked first."""
        there = 0
        with suppress(psutil.Error):
            leader = psutil.Process(self._process.pid)
            for one in (leader, *leader.children(recursive=True)):
                with suppress(psutil.Error):
                    there += one.memory_info().rss
        if self._memory_at_first is None:
            self._memory_at_first = there
        return there - self._memory_at_first

    def ask_to_stop(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def exit_code(self) -> int:
        """End the child, if it has not ended, with everything it started; return its exit code."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self.kill()
        return self._process.wait()

    def close(self) -> None:
        self.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._put_away()

    def _put_away(self) -> None:
        os.close(self._pipe)
        self._said.close()
        self._folder.cleanup()

    def _signal(self, number: signal.Signals) -> None:
        # The group outlives its leader: what the child started is ended too.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def remove_abandoned() -> None:
    """Remove the folders of children whose worker was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), (folder / SAID).open("rb") as said:  # or it belongs to others
            fcntl.flock(said, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def _locked(path: Path) -> IO[bytes]:
    """Open a new file that nobody sees before it is locked."""
    new = path.with_suffix(".new")
    opened = new.open("w+b")
    fcntl.flock(opened, fcntl.LOCK_EX)
    new.rename(path)
    return opened


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Read a line of the pipe; whatever else the work wrote there says nothing."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
