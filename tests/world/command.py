"""The command in the test's own process: all of it but the start of another process.

It goes through the same `main` as the installed script: parsing, errors, exit codes. A promise
about a process (a signal, a kill, two at once) needs `tests.forked` instead.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tallyman.cli.main import main
from tallyman.engine.spark import session
from tests.world.reply import Reply


def in_process(folder: Path, words: tuple[str, ...], environment: Mapping[str, str]) -> Reply:
    """Run the command in `folder` and leave the process as it was."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        own_sessions(patch),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["tallyman", *words])
        patch.chdir(folder)
        for name, value in environment.items():
            patch.setenv(name, value)
        code = _ended()
    return Reply(code, out.getvalue(), err.getvalue())


def _ended() -> int:
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@contextlib.contextmanager
def own_sessions(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the command sessions of Spark Connect of its own. In a process that ends, its settings
    would end with it; here the next command would have them."""
    opened: dict[str, SparkSession] = {}
    patch.setattr(session, "_connected", opened)
    try:
        yield
    finally:
        for one in opened.values():
            one.stop()
