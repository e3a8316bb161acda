"""A real standalone cluster gives what one process gives, also when it loses one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import left_by
from tests.forked import Running, command
from tests.spark_servers import free_port, listening, spark_class
from tests.world.waiting import wait_until

pytestmark = pytest.mark.large  # tests/faults/test_connect.py compares the same
RUNS = ("whole", "bereft")
"""The last one loses an executor."""
WORKERS = 2


@dataclass(frozen=True)
class Cluster:
    address: str
    folder: Path

    def executors(self) -> list[int]:
        """Of this cluster: they work in folders below those of their workers."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words, place = (process / "cmdline").read_bytes(), os.readlink(process / "cwd")
            except OSError:
                continue
            if b"CoarseGrainedExecutorBackend" in words and place.startswith(str(self.folder)):
                found.append(int(process.name))
        return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    port, page = free_port(), free_port()
    made = Cluster(f"spark://127.0.0.1:{port}", folder)
    local = ("--host", "127.0.0.1", "--webui-port")
    running = [spark_class(folder, "master.Master", *local, str(page), "--port", str(port))]
    wait_until(lambda: listening(port))
    for number in range(WORKERS):
        size = ("-c", "1", "-m", "1g", "-d", str(folder / f"w{number}"))
        words = (str(free_port()), *size, made.address)
        running.append(spark_class(folder, "worker.Worker", *local, *words))
    yield made
    for process in running:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _run_each(runs: tuple[str, ...], *words: str) -> None:
    """One command after the other in one process: a Spark for each would take most of the time."""
    for run in runs:
        try:
            command("run", "--force", "--json", "--run-id", run, *words)
        except SystemExit as end:
            if end.code:
                raise


def test_a_cluster_gives_what_one_process_gives_also_when_an_executor_dies(
    project: Path, alone: dict[str, Any], cluster: Cluster
) -> None:
    size = ("spark.executor.memory=768m", "spark.executor.cores=1")
    words = ("--master", cluster.address, *(w for one in size for w in ("--spark-conf", one)))
    each = partial(_run_each, RUNS, *words)
    running = Running(project, {k: v for k, v in os.environ.items() if k != "CI"}, each)
    at_work = "*_bereft/.staging/**/segment-*"
    try:
        wait_until(
            lambda: any((project / "runs").glob(at_work)) or not running.process.is_alive(), 240
        )
        victims = cluster.executors()
        assert victims, "the run had no executor to lose"
        os.kill(victims[0], signal.SIGKILL)
        assert not any((project / "runs").glob("*_bereft/processing_report.json")), "too late"
        code, _, err = running.wait()
    finally:
        running.kill()
    assert code == 0, err
    for run in RUNS:
        [folder] = (project / "runs").glob(f"*_{run}")
        assert left_by(project, str(folder.relative_to(project))) == alone, run
