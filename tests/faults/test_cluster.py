"""A real standalone cluster of two workers gives what one process gives, also when it loses one."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import left_by, start, tallyman
from tests.spark_servers import free_port, listening, spark_class, wait_until


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    port, page = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    local = ("--host", "127.0.0.1", "--webui-port")
    running = [spark_class(folder, "master.Master", *local, str(page), "--port", str(port))]
    wait_until(lambda: listening(port))
    for number in range(2):
        words = (
            str(free_port()),
            "-c",
            "1",
            "-m",
            "1g",
            "-d",
            str(folder / f"w{number}"),
            address,
        )
        running.append(spark_class(folder, "worker.Worker", *local, *words))
    yield address
    for process in running:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _run(project: Path, *words: str) -> dict:  # type: ignore[type-arg]
    code, result = tallyman(project, "run", *words)
    assert code == 0, result
    return left_by(project, result["folder"])


def _executors() -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = status.read_bytes()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in words and b"--driver-url" in words:
            found.append(int(status.parent.name))
    return found


CLUSTER = ("--spark-conf", "spark.executor.memory=768m", "--spark-conf", "spark.executor.cores=1")


def test_a_cluster_gives_what_one_process_gives_also_when_an_executor_dies(
    project: Path, master: str, spark_server: str
) -> None:
    alone = _run(project, "--master", spark_server)
    assert alone["balanced"]
    assert _run(project, "--force", "--master", master, *CLUSTER) == alone

    running = start(project, "run", "--force", "--json", "--master", master, *CLUSTER)
    wait_until(
        lambda: (
            any((project / "runs").glob("*/.staging/**/segment-*")) or running.poll() is not None
        )
    )
    victims = _executors()
    assert victims, "the run had no executor to lose"
    os.kill(victims[0], signal.SIGKILL)
    out, err = running.communicate(timeout=240)
    assert running.returncode == 0, err
    folder = re.search(r'"folder": "([^"]+)"', out)
    assert folder
    assert left_by(project, folder.group(1)) == alone
