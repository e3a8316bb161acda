"""The JVM of a child: one that is killed costs nobody else an attempt, and the next is prepared."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator

import psutil
import pytest

from tallyman.domain.task.task import TARGET
from tallyman.settings import Secret
from tallyman.worker.attempt import Attempt
from tallyman.worker.client import ServerClient
from tallyman.worker.warm_children import ChildLimits, WarmChildren
from tallyman.worker.worker import ENTRIES
from tests.workers.service import Service
from tests.world.databases import Databases
from tests.world.homes import Homes
from tests.world.waiting import wait_until

DAYS = [f"2025-03-0{day}" for day in range(1, 5)]


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> Iterator[Homes]:
    """Projects whose processes start a Spark of their own."""
    with Homes(tmp_path_factory, databases) as made:
        yield made


def jvms(process: int) -> set[int]:
    """The JVMs with Spark that a process and its children have started."""
    found = psutil.Process(process).children(recursive=True)
    return {one.pid for one in found if _has_spark(one)}


def _has_spark(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()  # a zombie has none; a launcher only prints the command
    except psutil.NoSuchProcess:
        return False
    return "pyspark-shell" in words and "org.apache.spark.launcher.Main" not in words


def attempts(service: Service) -> list[list[str]]:
    """Number and outcome of all attempts."""
    return service.home.sql(
        "SELECT a.attempt, a.outcome FROM attempts a JOIN tasks t ON t.id = a.task_id "
        "ORDER BY t.asset, t.id, a.attempt"
    )


def test_a_killed_jvm_costs_no_task_an_attempt(service: Service) -> None:
    home, worker = service.home, service.made[-1].process.pid
    for day in DAYS:
        home.numbers(day, 1, 2, 3)
    watching = home.start("backfill", "+report", "--from", DAYS[0], "--to", DAYS[-1], "--json")
    wait_until(lambda: ["1", "success"] in attempts(service))
    killed = jvms(worker)
    assert len(killed) == 1
    kill(killed)
    code, out, err = watching.wait(200)
    assert code == 0, err
    assert jvms(worker) - killed  # the work went on with another one
    assert attempts(service) == [["1", "success"]] * 3 * len(DAYS)
    home.ok("verify", "run", json.loads(out)["run_id"])


@pytest.mark.large  # the test before it kills once
def test_a_task_whose_jvm_is_killed_each_time_runs_out_of_attempts(
    new_service: Callable[[], Service],
) -> None:
    service = new_service()
    once = 'name="sum", retry=tm.retry(attempts=1),'
    home = service.home.edit('name="sum",', once).numbers(DAYS[0], 1)
    service.server()
    worker = service.worker().process.pid
    service.run("numbers", "numbers", "--partition", DAYS[0])
    watching = home.start("run", "sum", "--partition", DAYS[0], "--run-id", "bad", "--json")
    wait_until(lambda: kill(jvms(worker)) or service.tasks("bad") == [("sum", "Failed")])
    assert watching.wait(60)[0] == 1
    assert attempts(service) == [["1", "success"], ["1", "retryable_error"]]
    home.ok("resume", "bad")
    assert home.damaged() == []


def kill(processes: set[int]) -> None:
    for process in processes:
        os.kill(process, signal.SIGKILL)


@pytest.fixture
def children() -> WarmChildren:
    return WarmChildren(1, ChildLimits(tasks=2))


def test_the_next_child_has_started_spark_before_there_is_a_task(
    new_service: Callable[[], Service], children: WarmChildren
) -> None:
    service = new_service()
    for day in DAYS:
        service.home.numbers(day, 1, 2, 3)
    assert service.home.forked("run", "numbers", "--partition", DAYS[3]).code == 0
    others = jvms(os.getpid())
    service.server()
    token = service.home.ok("worker", "token", "create", "here")["token"]
    client = ServerClient(service.address, Secret(token))
    seen: list[set[int]] = []
    try:
        for day in DAYS[:3]:
            task = service.react("numbers", day, f"d:{day}")
            claimed = client.post("/internal/task-claim", {"worker_id": "w", "wait_s": 20})
            Attempt(client, children, claimed).run(ENTRIES[TARGET])
            service.completed(task)
            wait_until(lambda: jvms(os.getpid()) - others, 60)
            seen.append(jvms(os.getpid()) - others)
    finally:
        children.close()
        client.close()
    first, second, third = seen
    assert not second & first  # that of the second child, which has done nothing yet
    assert third & second  # a JVM that starts a command is there twice for a moment
