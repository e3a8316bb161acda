"""Settings that a Spark session is started with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from tallyman.engine.spark.mode import is_connect

CORES = os.cpu_count() or 2

ANYWHERE: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.parquet.compression.codec": "snappy",
    # Spark has no nanoseconds; they are read as counts, and converted here.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    # A flipped bit in a page must be an error, not another value.
    "parquet.page.write-checksum.enabled": "true",
    "parquet.page.verify-checksum.enabled": "true",
    # Above 32 paths, Spark would list them by a job with a task for each; they are listed already.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    # `${name}` in a text is text: what a step means must not depend on settings.
    "spark.sql.variable.substitute": "false",
    # One open file per fate instead of a sort of every row by fate.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
}
"""Settings that the accounting relies on, for every kind of Spark."""

ONE_MACHINE: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Several calls into the JVM for each call of an expression, only to name a line of ours.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(2 * CORES),
}
"""Settings for Spark inside this process; a cluster has its own."""

LOCAL = f"local[{CORES}]"


def quiet_for(master: str | None, redacted: Sequence[str]) -> dict[str, str]:
    """Keep the values of redacted columns out of the log of a Spark that is started here."""
    return {"spark.log.level": "OFF"} if redacted and not is_connect(master) else {}


def settings_for(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with which a session on `master` is started."""
    if is_connect(master):
        return {**ANYWHERE, **conf}
    settings = {**ANYWHERE, **ONE_MACHINE}
    if not (master or LOCAL).startswith("local"):
        settings.pop("spark.sql.shuffle.partitions")
    return {**settings, **conf}
