"""What a test may not leave changed, because all later tests of the process and every command they
start would have it: the environment, the working directory, the umask and the signal handlers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The first is pytest's. In the others a SparkContext notes settings of its JVM, which lives on.
NOTES = ("PYTEST_CURRENT_TEST", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")
# pytest-timeout has its own around every test.
HANDLED = set(signal.Signals) - {signal.SIGALRM, signal.SIGKILL, signal.SIGSTOP}


@dataclass(frozen=True)
class ProcessState:
    environment: dict[str, str]
    folder: str
    umask: int
    handlers: dict[signal.Signals, Any]

    @classmethod
    def now(cls) -> ProcessState:
        return cls(
            environment={k: v for k, v in os.environ.items() if k not in NOTES},
            folder=_folder(),
            umask=_umask(),
            handlers={number: _handler(number) for number in HANDLED},
        )

    def differences(self, later: ProcessState) -> Iterator[str]:
        """Without values: passwords are among them."""
        before, after = self.environment, later.environment
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                yield f"{name} in the environment"
        if self.folder != later.folder:
            yield f"the working directory, {self.folder}: {later.folder}"
        if self.umask != later.umask:
            yield f"the umask, {self.umask:03o}: {later.umask:03o}"
        for number, handler in self.handlers.items():
            if later.handlers[number] != handler:
                shown = f"{handler}: {later.handlers[number]}"
                yield f"the handler of {number.name}, {shown}"

    def restore(self) -> None:
        """One test failed; those after it shall not."""
        for name in set(os.environ) - set(self.environment) - set(NOTES):
            del os.environ[name]
        os.environ.update(self.environment)
        os.chdir(self.folder)
        os.umask(self.umask)
        for number, handler in self.handlers.items():
            if handler is not None and _handler(number) != handler:
                signal.signal(number, handler)


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "one that is gone"


def _umask() -> int:
    """Read, not set and set back: another thread may be making a file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Umask:")), 8)


def _handler(number: signal.Signals) -> Any:
    """A SparkContext puts its own where Python's would interrupt; both interrupt."""
    found = signal.getsignal(number)
    of_spark = str(getattr(found, "__module__", "")).startswith("pyspark.")
    return signal.default_int_handler if of_spark else found
