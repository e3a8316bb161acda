"""Real Spark servers for tests: processes that are started, listened for, and killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyspark

from tallyman.engine.spark import class_archive
from tests.world.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
OURS = {
    "SPARK_HOME": str(SPARK_HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,  # for Python functions: the one that has PySpark
}
_kept: list[subprocess.Popen[bytes]] = []  # Python warns of processes that are forgotten
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def spark_class(folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    with (folder / "spark.log").open("ab") as log:
        return subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *words],
            env={**os.environ, **OURS, **_java_options()},
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


LONG_LIFE = "-Xms1500m -Xmn700m"
"""Room for what each of thousands of small queries leaves: with little of it, a twelfth of the
server's time goes into clearing it away. (The slow compiler takes more time than it saves.)"""


def _java_options() -> dict[str, str]:
    found = class_archive.archive()
    archive = class_archive.options(found) if found.is_file() else ""
    return {class_archive.SUBMIT_OPTIONS: f"{archive} {LONG_LIFE}".strip()}


def start_connect_server(folder: Path, cores: int) -> tuple[int, str]:
    """The process group and the address of a Spark Connect server, which answers already."""
    port = free_port()
    conf = (
        "spark.ui.enabled=false",
        f"spark.connect.grpc.binding.port={port}",
        "spark.sql.shuffle.partitions=2",
        # The line of ours that made each expression: half of every plan that is sent.
        "spark.python.sql.dataFrameDebugging.enabled=false",
        # Hundreds of commands leave their sessions, and each its plans: a full heap is slow.
        "spark.driver.memory=3g",
        "spark.connect.session.manager.defaultSessionTimeout=4m",
        "spark.log.level=ERROR",
        "spark.sql.ui.retainedExecutions=5",
        "spark.ui.retainedJobs=20",
        "spark.ui.retainedStages=20",
    )
    words = [word for setting in conf for word in ("--conf", setting)]
    master = ("--master", f"local[{cores}]")
    running = spark_class(
        folder, "SparkSubmit", *master, *words, "--class", CONNECT, "spark-internal"
    )
    _kept.append(running)
    try:
        wait_until(lambda: listening(port))
    except BaseException:
        os.killpg(running.pid, signal.SIGKILL)
        raise
    return running.pid, f"sc://127.0.0.1:{port}"
