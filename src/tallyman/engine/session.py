"""The Spark session: settings that suit one machine, and how to change them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

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

LOG = "spark.log"
LOCAL = f"local[{CORES}]"


def settings_for(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """What a session on `master` is started with."""
    where = master or LOCAL
    if where.startswith("sc://"):
        return {**ANYWHERE, **conf}
    settings = {**ANYWHERE, **ONE_MACHINE}
    if not where.startswith("local"):
        settings.pop("spark.sql.shuffle.partitions")
    return {**settings, **conf}


def open_session(master: str | None, conf: Mapping[str, str], state: str) -> SparkSession:
    """A session on `master`: `local[N]`, a cluster's address, or `sc://` for Spark Connect."""
    master, settings = master or LOCAL, settings_for(master, conf)
    if master.startswith("sc://"):
        session = SparkSession.builder.remote(master).getOrCreate()
        for name, value in settings.items():
            session.conf.set(name, value)
        return session
    # Workers and driver must be the same Python, also when it was not activated.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("tallyman")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _stderr_to(os.path.join(state, LOG)):
        return builder.getOrCreate()


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
