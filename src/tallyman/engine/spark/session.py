"""The Spark session: settings that suit one machine, and how to change them."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tallyman.engine.spark.mode import is_connect

CORES = os.cpu_count() or 2

ANYWHERE: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.parquet.compression.codec": "snappy",
    # A flipped bit in a page is an error and not another value.
    "parquet.page.write-checksum.enabled": "true",
    "parquet.page.verify-checksum.enabled": "true",
    # `${name}` in a text is text: what a step means must not depend on settings.
    "spark.sql.variable.substitute": "false",
    # One open file per fate instead of a sort of every row by fate.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
}
"""Settings the accounting relies on, for every kind of Spark."""

ONE_MACHINE: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(2 * CORES),
}
"""Settings for Spark inside this process; a cluster has its own."""

QUIET: Mapping[str, str] = {"spark.log.level": "OFF"}
"""Where columns are redacted: Spark logs the values that it stumbles over."""

LOG = "spark.log"
LOCAL = f"local[{CORES}]"


PYTHON = "PYSPARK_PYTHON"
_connected: dict[str, SparkSession] = {}
"""By address: PySpark would give whoever asks the first one, whatever server was meant."""


def settings_for(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """What a session on `master` is started with."""
    if is_connect(master):
        return {**ANYWHERE, **conf}
    settings = {**ANYWHERE, **ONE_MACHINE}
    if not (master or LOCAL).startswith("local"):
        settings.pop("spark.sql.shuffle.partitions")
    return {**settings, **conf}


def open_session(master: str | None, conf: Mapping[str, str], state: str) -> SparkSession:
    """A session on `master`: `local[N]`, a cluster's address, or `sc://` for Spark Connect.

    The process is in the master's mode (see `spark_mode`)."""
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
        around.enter_context(_stderr_to(os.path.join(state, LOG)))
        around.enter_context(_this_python())
        around.enter_context(_interrupts_as_they_are())
        return builder.getOrCreate()


def is_up(master: str | None) -> bool:
    """Whether `open_session` gives a session that was there before."""
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
        # PySpark's own work at exit asks the server; one that is gone holds it up for ten minutes.
        atexit.register(session.client.close)  # type: ignore[operator]
    return session


def _known(address: str) -> SparkSession | None:
    session = _connected.get(address)
    return None if getattr(session, "is_stopped", False) else session


@contextmanager
def _this_python() -> Iterator[None]:
    """Workers and driver must be the same Python, also when it was not activated. Only while Spark
    starts: other programs that are started from here may need another."""
    if PYTHON in os.environ:
        yield
        return
    os.environ[PYTHON] = sys.executable
    try:
        yield
    finally:
        os.environ.pop(PYTHON, None)


@contextmanager
def _interrupts_as_they_are() -> Iterator[None]:
    """A SparkContext takes SIGINT for itself, to cancel its jobs. Who ignores it, as whatever is
    started in the background does, or has a handler of their own, keeps that."""
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
def _stderr_to(path: str) -> Iterator[None]:
    """The JVM inherits where stderr goes when it starts: its log belongs in a file."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
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
