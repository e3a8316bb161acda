"""Compile in a child process: user code never runs where the database and Spark are.

The child is a fork of this process, which takes milliseconds, in a session of its own and without
the files and connections of this one. A process that already speaks gRPC, or has other threads
that a fork may catch in the middle of something, starts a new interpreter instead. The child hands
over JSON through a pipe; what it prints is shown on stderr. It is ended with everything it started,
at the latest when its time is over.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import math
import os
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, NoReturn

from tallyman.control.compile.compiling import compile_folder
from tallyman.control.compile.fresh_imports import import_as_written
from tallyman.control.compile.handover import Handover
from tallyman.domain.compiled.form import LARGEST
from tallyman.errors import Problem

SECONDS = 60.0
"""The time limit, unless TALLYMAN_COMPILE_SECONDS gives another."""
GRACE_S = 2
"""How long after its time limit a child ends by itself, if its parent was killed."""
MOST = 4 * LARGEST
"""The most bytes that a child may hand over."""
MOST_SHOWN = 20_000
"""The most bytes shown of what the files print."""
MOST_PRINTED = 100_000_000
"""The most bytes that the files may print: they are kept on the disk until the child ends."""
_HEAD = struct.Struct("!cQ")
_DONE, _INTERRUPTED = b"D", b"I"


def compile_in_child(folder: Path) -> Handover:
    """Compile the pipeline files of a folder; that no answer comes in time is a mistake of theirs.
    KeyboardInterrupt if this process, or a file, is interrupted."""
    with tempfile.TemporaryFile() as said:
        kind, content, failure = _answer(folder, said, _time_limit())
        _show(said)
        if failure is not None:
            return Handover(problems=(_located(failure, folder, said),))
    if kind == _INTERRUPTED:
        raise KeyboardInterrupt(content.decode(errors="replace"))
    try:
        return Handover.of_json(content)
    except ValueError:
        return Handover(problems=(Problem(folder.name, "compiling gave no answer"),))


def _time_limit() -> float:
    return float(os.environ.get("TALLYMAN_COMPILE_SECONDS", SECONDS))


def _answer(folder: Path, said: IO[bytes], seconds: float) -> tuple[bytes, bytes, str | None]:
    """Return the kind and content of the child's answer, or why there is none."""
    reading, writing = os.pipe()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    if _can_fork():
        child = os.fork()
        if child == 0:
            _within(folder, writing, said)
    else:
        child = _started(folder, writing, said)
    os.close(writing)
    try:
        return _read(reading, child, said, seconds)
    except KeyboardInterrupt:
        _ask_where(child)
        there = _located("", folder, said)
        raise KeyboardInterrupt(f"while compiling {there.file or folder.name}") from None
    finally:
        os.close(reading)
        _end(child)


def _read(
    reading: int, child: int, said: IO[bytes], seconds: float
) -> tuple[bytes, bytes, str | None]:
    deadline = time.monotonic() + seconds
    found = bytearray()
    ended: int | None = None
    while (left := deadline - time.monotonic()) > 0:
        ready = select.select((reading,), (), (), min(left, 0.05))[0]
        if ready:
            chunk = os.read(reading, 1 << 20)
            found += chunk
            if len(found) >= _HEAD.size:
                kind, size = _HEAD.unpack_from(found)
                if size > MOST:
                    return b"", b"", f"the pipeline has more than {MOST:,} bytes when compiled"
                if len(found) >= _HEAD.size + size:
                    return kind, bytes(found[_HEAD.size : _HEAD.size + size]), None
            if chunk:
                continue
        if os.fstat(said.fileno()).st_size > MOST_PRINTED:
            return b"", b"", f"the files print more than {MOST_PRINTED:,} bytes"
        # Something that the child started may hold the pipe open: do not wait for its end.
        if ended is not None:
            return b"", b"", _ended(ended)
        ended = exit_code(child)
    _ask_where(child)
    return b"", b"", f"compiling took more than {seconds:g} s and was stopped"


def _can_fork() -> bool:
    """True if a fork is whole: threads of gRPC, and locks of others, do not survive one."""
    return "grpc" not in sys.modules and threading.active_count() == 1


def _started(folder: Path, writing: int, said: IO[bytes]) -> int:
    """Start an interpreter that compiles, with the same modules to import from."""
    code = "from tallyman.control.compile.child import stand_alone; stand_alone()"
    started = subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(writing)],
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=said,
        pass_fds=(writing,),
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    started.returncode = 0  # its end is waited for here, by its id
    return started.pid


def _ask_where(child: int) -> None:
    """Let the child write down where it is."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGUSR1)
        time.sleep(0.1)


def exit_code(child: int) -> int | None:
    """Return the exit code of a child that has ended. Its number stays taken until `_end`, which
    would otherwise signal whoever got it next."""
    with contextlib.suppress(ChildProcessError):
        found = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
    return 0


def _ended(code: int) -> str:
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return f"a pipeline file ended the process that compiles it, {how}"


def _end(child: int) -> None:
    """End the child and everything in its session."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def _show(said: IO[bytes]) -> None:
    """Show on stderr what the files printed, without the traceback of a child out of time."""
    size = said.seek(0, os.SEEK_END)
    said.seek(0)
    text = said.read(MOST_SHOWN).decode(errors="replace").partition(_TRACE)[0]
    if text:
        more = "" if size <= MOST_SHOWN else f"\n… {size - MOST_SHOWN:,} more bytes"
        sys.stderr.write(f"{text.rstrip()}{more}\n")


_TRACE = "Stack (most recent call first)"


def _located(message: str, folder: Path, said: IO[bytes]) -> Problem:
    """Add the file and line at which a child was when its time was over."""
    said.seek(max(0, said.seek(0, os.SEEK_END) - MOST_SHOWN))
    trace = said.read().decode(errors="replace").rpartition(_TRACE)[2]
    found = re.search(rf'File "{re.escape(str(folder))}/([^"]+)", line (\d+)', trace)
    if found is None:
        return Problem(folder.name, message)
    return Problem(found[1], message, file=f"{folder.name}/{found[1]}", line=int(found[2]))


# ---- in the child ------------------------------------------------------------------------------


def stand_alone() -> NoReturn:
    """Compile in an interpreter of its own, as `_started` begins it."""
    folder, writing = Path(sys.argv[1]), int(sys.argv[2])
    sys.argv = [""]
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=False)
    _hand_over(folder, writing)


def _within(folder: Path, writing: int, said: IO[bytes]) -> NoReturn:
    """Compile in a fork. Nothing of it is cleaned up: all that was there belongs to the parent."""
    try:
        os.setsid()
        gc.disable()  # what the parent holds is not to be closed here
        _take_over(writing, said)
    except BaseException:
        os._exit(1)
    _hand_over(folder, writing)


def _hand_over(folder: Path, writing: int) -> NoReturn:
    code = 1
    try:
        own = os.getpid()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(math.ceil(_time_limit()) + GRACE_S)
        import_as_written(folder)
        kind, content = _result(lambda: compile_folder(folder))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if os.getpid() == own:  # a file may have forked
            _write(writing, _HEAD.pack(kind, len(content)) + content)
        code = 0
    except BaseException as error:
        with contextlib.suppress(Exception):
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            sys.stderr.flush()
    finally:
        os._exit(code)
    raise AssertionError


def _result(compiled: Callable[[], Handover]) -> tuple[bytes, bytes]:
    try:
        return _DONE, compiled().to_json().encode()
    except KeyboardInterrupt as error:
        return _INTERRUPTED, str(error).encode(errors="replace")


def _take_over(writing: int, said: IO[bytes]) -> None:
    """Keep the pipe, print to the file, and close everything else of the parent."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(said.fileno(), 1)
    os.dup2(said.fileno(), 2)
    os.closerange(3, writing)
    os.closerange(writing + 1, 1 << 20)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False, errors="replace")
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False, errors="replace")
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=False)


def _write(writing: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(writing, view) :]
