"""A command in a process of its own, forked from one that has imported it already.

Of the time of a short command the imports are most, also of those that come with a session of
Spark Connect and with the first publication. What is forked has no thread, no Spark and no database
yet: it is as good as new.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pkgutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import tallyman
from tallyman.cli.main import main
from tests import planting

planting.install()
_context = multiprocessing.get_context("forkserver")
_ours = [module.name for module in pkgutil.walk_packages(tallyman.__path__, "tallyman.")]
_late = ["pyspark.sql.connect.session", "pyiceberg.io.pyarrow", "pyiceberg.table"]
_context.set_forkserver_preload([*_ours, "pytest", __name__, *_late])


class Running:
    """A process at work; what it says is in files, so that it never waits for a reader."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str], work: Callable[[], object]
    ) -> None:
        self._said = tempfile.TemporaryDirectory(prefix="said-")
        given = (folder, dict(environment), work, self._said.name)
        self.process = _context.Process(target=_within, args=given)
        self.process.start()

    def wait(self, seconds: float = 240) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        self.process.join(seconds)
        code = self.process.exitcode
        out, err = (Path(self._said.name, name).read_text() for name in ("out", "err"))
        self.kill()
        assert code is not None, f"it did not end in {seconds} s: {out} {err}"
        return code, out, err

    def pause(self) -> None:
        """It stands still, wherever it is, until `go_on`."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """As kill -9 does; nothing happens when it has ended by itself."""
        with contextlib.suppress(ProcessLookupError):
            if self.process.pid is not None and self.process.is_alive():
                os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()
        self._said.cleanup()


def command(*words: str) -> None:
    """What the installed script does."""
    sys.argv = ["tallyman", *words]
    main()


def _within(
    folder: Path, environment: dict[str, str], work: Callable[[], object], said: str
) -> None:
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(said, name), os.O_WRONLY | os.O_CREAT, 0o600), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    work()
