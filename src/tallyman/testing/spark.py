"""One Spark session for all tests of a process: the user's own if there is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tallyman.engine.spark.lent_session import lent
from tallyman.engine.spark.project_session import ProjectSession
from tallyman.engine.spark.session import is_up
from tallyman.engine.spark.settings import ANYWHERE
from tallyman.errors import UsageError

MASTER = "local[2]"

FEW_ROWS: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Compiling a plan takes far longer than evaluating it for a handful of rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings of a session that evaluates many plans on a few rows each."""

SHORT_LIFE: Mapping[str, str] = {
    "spark.driver.memory": "1g",
    # The one compiler level has room for little code by default; Spark makes a lot of it.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
    ),
}
"""Settings of a Java process that ends with the tests: start fast rather than become fast."""


@contextmanager
def session_for_tests(folder: Path) -> Iterator[SparkSession]:
    """Lend the session of this process with our settings, or start one for this and later tests."""
    if is_up(None):
        found = SparkSession.active()
        with lent(found, {**ANYWHERE, **FEW_ROWS}, {}) as refused:
            if refused:
                raise UsageError(f"the Spark session of these tests lacks {'; '.join(refused)}")
            yield found
        return
    own = ProjectSession(MASTER, folder)
    try:
        yield own.get({**FEW_ROWS, **SHORT_LIFE}, {})
    finally:
        own.leave_mode()
