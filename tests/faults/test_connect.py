"""The same engine over Spark Connect: only the public DataFrame API is used."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import left_by, tallyman, wait_until
from tests.faults.test_cluster import _free_port, _listening, _spark_class

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = _free_port()
    conf = ("spark.ui.enabled=false", f"spark.connect.grpc.binding.port={port}")
    words = [word for setting in conf for word in ("--conf", setting)]
    running = _spark_class(
        tmp_path_factory.mktemp("connect"),
        "SparkSubmit", "--master", "local[2]", *words, "--class", SERVER, "spark-internal",
    )  # fmt: skip
    wait_until(lambda: _listening(port))
    yield f"sc://127.0.0.1:{port}"
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def test_spark_connect_gives_what_one_process_gives(project: Path, server: str) -> None:
    code, alone = tallyman(project, "run")
    assert code == 0, alone
    code, connected = tallyman(project, "run", "--master", server)
    assert code == 0, connected
    assert left_by(project, connected["folder"]) == left_by(project, alone["folder"])
