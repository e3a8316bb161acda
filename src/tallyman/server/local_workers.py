"""Workers on the server's machine: processes that it starts, restarts and ends with itself."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tallyman.settings import Secret

log = logging.getLogger("tallyman.server")

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
STEADY_S = 60.0
"""A worker that lived for so long is restarted without delay."""


class LocalWorkers:
    """Keeps `count` processes of `command` at work. Each gets the token as a line on stdin, which
    no command line, variable or file shows; stdin stays open as long as the server lives."""

    def __init__(
        self, command: Sequence[str], token: Secret, count: int, env: Mapping[str, str]
    ) -> None:
        self._command, self._token, self._env = list(command), token, dict(env)
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._threads = [
            threading.Thread(target=self._keep, args=(number,), name=f"worker-{number}")
            for number in range(1, count + 1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def drain(self) -> None:
        """Let every worker finish what it has begun, and wait until all have ended."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End every worker at once. Their tasks are taken over when the leases end."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        self._ending.set()
        with self._lock:
            for process in self._processes.values():
                process.send_signal(number)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _keep(self, number: int) -> None:
        pause = FIRST_PAUSE_S
        while not self._ending.is_set():
            begun, code = time.monotonic(), None
            try:
                process = self._started(number)
                if process is None:
                    return
                code = _exit_code(process)
                what = f"(process {process.pid}) {_how(code)}"
            except OSError as error:  # no memory, no process: that may be over in a while
                what = f"could not be started: {error}"
            if self._ending.is_set():
                return
            pause = FIRST_PAUSE_S if time.monotonic() - begun > STEADY_S else pause
            text = f"worker {number} {what}; starts again in {pause:.0f} s"
            log.warning("%s", text, extra={"facts": {"worker": number, "exit_code": code}})
            self._ending.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _started(self, number: int) -> subprocess.Popen[bytes] | None:
        """Start a worker, unless all are about to end."""
        with self._lock:
            if self._ending.is_set():
                return None
            # In a session of its own: Ctrl-C is for the server, which then asks its workers.
            process = subprocess.Popen(
                self._command,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._processes[number] = process
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it died at once: its exit code says so
            os.write(process.stdin.fileno(), self._token.reveal().encode() + b"\n")
        return process


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a worker."""
    code = process.wait()
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    return code


def _how(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
