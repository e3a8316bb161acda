"""The Spark session: settings that suit one machine, and how to change them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

CORES = os.cpu_count() or 2

ANYWHERE: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.parquet.compression.codec": "snappy",
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

QUIET_LOGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.off.name = org.apache.spark
logger.off.level = off
"""


def open_session(master: str | None, conf: Mapping[str, str], state: str) -> SparkSession:
    """A session on `master`: `local[N]`, a cluster's address, or `sc://` for Spark Connect."""
    master = master or f"local[{CORES}]"
    if master.startswith("sc://"):
        session = SparkSession.builder.remote(master).getOrCreate()
        for name, value in {**ANYWHERE, **conf}.items():
            session.conf.set(name, value)
        return session
    settings = {**ANYWHERE, **ONE_MACHINE}
    if not master.startswith("local"):
        settings.pop("spark.sql.shuffle.partitions")
    settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_logging(state)}"
    settings.update(conf)
    # Workers and driver must be the same Python, also when it was not activated.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("tallyman")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _logging(state: str) -> str:
    os.makedirs(state, exist_ok=True)
    path = os.path.join(state, "log4j2.properties")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(QUIET_LOGS)
    return path
