"""The Spark session of a process: started, or found if it already exists."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tallyman.engine.spark import class_archive
from tallyman.engine.spark.mode import is_connect
from tallyman.engine.spark.settings import LOCAL, settings_for
from tallyman.state_folder import ready

LOG = "spark.log"


PYTHON = "PYSPARK_PYTHON"
_connected: dict[str, SparkSession] = {}
"""Connect sessions by address: PySpark would return the first one for any server."""


def open_session(
    master: str | None, conf: Mapping[str, str], state: str, java: str = ""
) -> SparkSession:
    """Open a session on `master`: `local[N]`, a cluster's address, or `sc://` for Spark Connect.

    The process must be in the master's mode (see `mode`). `java` are options for a Java that is
    started here; those in the environment count more.
    """
    master, settings = master or LOCAL, settings_for(master, conf)
    if is_connect(master):
        session = _connection(master)
        for name, value in settings.items():
            session.conf.set(name, value)
        return session
    builder = SparkSession.builder.master(master).appName("tallyman")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with ExitStack() as around:
        around.enter_context(_stderr_to(ready(Path(state)) / LOG))
        # Use this Python for Spark's workers too, even if its environment is not activated. Only
        # while Spark starts: other programs started from here may need another Python.
        python = os.environ.get(PYTHON, sys.executable)
        around.enter_context(class_archive.variable(PYTHON, python))
        around.enter_context(class_archive.in_use(java))
        around.enter_context(_interrupts_as_they_are())
        return builder.getOrCreate()


def is_up(master: str | None) -> bool:
    """True if `open_session` would return an existing session."""
    if is_connect(master):
        return _known(str(master)) is not None
    try:
        SparkSession.active()
    except PySparkException:
        return False
    return True


def _connection(address: str) -> SparkSession:
    session = _known(address)
    if session is None:
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            # The client would print errors as JSON with the server's stack, before we report them.
            PySparkLogger.getLogger(name).disabled = True
        session = _connected[address] = SparkSession.builder.remote(address).create()
        # PySpark asks the server at exit; a server that has vanished would block it for ten
        # minutes.
        atexit.register(session.client.close)  # type: ignore[operator]
    return session


def _known(address: str) -> SparkSession | None:
    session = _connected.get(address)
    return None if getattr(session, "is_stopped", False) else session


@contextmanager
def _interrupts_as_they_are() -> Iterator[None]:
    """Keep the handler of SIGINT. A SparkContext takes the signal to cancel its jobs; a program
    that ignores it, such as a background job, or has its own handler keeps that.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        usual = before in (None, signal.default_int_handler) or _of_spark(before)
        if not usual and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _of_spark(handler: object) -> bool:
    return str(getattr(handler, "__module__", "")).startswith("pyspark.")


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect stderr while the JVM starts, because it inherits it: its log belongs in a file."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(path, "ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
