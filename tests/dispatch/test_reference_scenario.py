"""Steps 1, 2, 3, 9 and 10 of the control plane's reference scenario, over real HTTP and processes:
a source, what is made from it, and the workers of both are played by this file."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tallyman.control.dispatch import operate
from tallyman.domain.task.retry import RetryPolicy
from tallyman.errors import CallRefused
from tallyman.settings import Secret
from tallyman.worker.client import ServerClient
from tests.dispatch import processes
from tests.dispatch.desk import FAST, Desk
from tests.dispatch.test_worker import ended
from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.scale import some
from tests.world.waiting import wait_until

CLAIM, COMPLETE = "/internal/task-claim", "/internal/task-complete"
DAY = "d:2025-01-01"
ONE_SECOND = RetryPolicy(attempts=3, timeout_s=1, backoff_s=0, backoff_cap_s=0)


PIPELINE = """\
sources:
  orders_feed:
    path: data/{partition}.parquet
    format: parquet
    key: order_id
    schema: order_id string, amount int, order_date date
assets:
  clean_orders:
    key: order_id
    partitioned_by: {column: order_date, start: 2025-01-01}
    timeout: 1s
    from: orders_feed
    steps:
      - filter: {where: amount > 5, reason: small}
  totals:
    key: order_date
    partitioned_by: {column: order_date, start: 2025-01-01}
    trigger: event
    from: clean_orders
    steps:
      - groupBy: {by: [order_date], agg: {total: sum(amount)}}
"""
REFUSED = {
    "execution_strategy: Bulk": "yaml:11: assets.clean_orders.execution_strategy: unknown key",
    "scaling: {mode: auto}": "yaml:11: assets.clean_orders.scaling: unknown key",
    "update_strategy: append": "assets.clean_orders: update_strategy 'append' needs a unique_key",
    "from: totals": "cycle: clean_orders → totals → clean_orders",
}


def test_a_pipeline_is_one_version_and_what_is_forbidden_is_refused(homes: Homes) -> None:
    """1: the same text is the same version; what is forbidden is named with its place."""
    home = homes.make(Home, "sales")
    file = home.path / "pipelines" / "sales.yaml"
    file.parent.mkdir()
    file.write_text(PIPELINE)
    plan = home.printed("compile").stdout
    assert home.printed("compile").stdout == plan
    file.write_text(PIPELINE.replace("amount > 5", "amount > 3"))
    assert home.printed("compile").stdout != plan
    for line, expected in REFUSED.items():
        before = "from: orders_feed" if line.startswith("from") else "timeout: 1s"
        file.write_text(PIPELINE.replace(before, line))
        reply = home.printed("check", "--no-spark")
        assert (reply.code, expected in reply.stdout + reply.stderr) == (2, True), str(reply)


@pytest.fixture(params=some(["one dispatcher", "two dispatchers"], 1))
def places(
    request: pytest.FixtureRequest, address: str, tmp_path: Path
) -> Iterator[tuple[str, str]]:
    """The addresses of two servers; of one, twice, in the first case."""
    started = [processes.server(address, tmp_path / "first")]
    if request.param == "two dispatchers":
        started.append(processes.server(address, tmp_path / "other"))
    yield started[0].first, started[-1].first
    for one in started:
        assert one.drained() == "drained"


LISTENING = """
    SELECT FROM pg_stat_activity
    WHERE query ~ '^ *LISTEN tallyman|unnest.+EXISTS' AND pid <> pg_backend_pid()
"""


def claimed(client: ServerClient, worker: str) -> dict[str, Any]:
    answer = client.post(CLAIM, {"worker_id": worker, "wait_s": 20})
    assert answer["status"] == "Claimed", answer
    return answer


def completion(answer: dict[str, Any], *events: dict[str, Any]) -> dict[str, Any]:
    fence = {"task_id": answer["task"]["task_id"], "attempt": answer["attempt"]}
    return {**fence, "lease_token": answer["lease_token"], "status": "Completed", "events": events}


def test_ingest_fence_and_late_completion(desk: Desk, places: tuple[str, str]) -> None:
    token = Secret(desk.token(f"w-{uuid4()}"))
    first, second = (ServerClient(place, token) for place in places)
    orders, clean = uuid4(), uuid4()
    desk.listen(orders, "clean_orders", retry=ONE_SECOND)
    desk.listen(clean, "totals")
    # 2: the source completes with one event, twice; exactly one task is made.
    desk.add(asset="orders_feed")
    feed = claimed(first, "fw")
    desk.hear()
    landed = completion(feed, {"dataset_uuid": str(orders), "partition_key": DAY})
    assert first.post(COMPLETE, landed)["duplicate"] is False
    assert second.post(COMPLETE, landed)["duplicate"] is True
    assert len(desk.rows("SELECT id FROM events")) == 1
    [task] = desk.tasks("clean_orders")
    assert desk.hear() == [f'{{"task_id": "{task.id}"}}']
    # 3: attempt 1 takes too long; attempt 2 is another worker's; attempt 1 changes nothing.
    slow = claimed(first, "fw")
    assert (slow["task"]["scope"]["partition_key"], slow["attempt"]) == (DAY, 1)
    fast = claimed(second, "fw2")
    assert (fast["task"]["task_id"], fast["attempt"]) == (str(task.id), 2)
    rows = {"dataset_uuid": str(clean), "partition_key": DAY}
    with pytest.raises(CallRefused) as refused:
        first.post(COMPLETE, completion(slow, rows))
    assert (refused.value.status, refused.value.problem) == (409, "stale_attempt")
    assert desk.tasks("totals") == []
    assert second.post(COMPLETE, completion(fast, rows))["status"] == "Completed"
    [totals] = desk.tasks("totals")
    first.post(COMPLETE, completion(claimed(first, "fw")))
    ended(desk, totals.id)
    assert desk.outcomes(task.id) == ["timeout", "success"]
    # A task given up for good at its last attempt still takes the late completion of that attempt.
    [last] = desk.add(asset="late", retry=RetryPolicy(attempts=1, timeout_s=1))
    late = claimed(first, "fw")
    wait_until(lambda: desk.task(last).status.value == "Failed")
    assert second.post(COMPLETE, completion(late))["status"] == "Completed"
    assert desk.task(last).status.value == "Completed"
    for client in (first, second):
        client.close()


@pytest.mark.large
def test_a_pool_of_two_slots_and_a_killed_worker(desk: Desk, address: str, tmp_path: Path) -> None:
    """9: never more than two run, with two keys, and the slots of a killed worker become free."""
    server = processes.server(address, tmp_path)
    token = tmp_path / "token"
    token.write_text(desk.token(f"w-{uuid4()}"))
    desk.pool("partner_api", [{"API_KEY": "one"}, {"API_KEY": "two"}])
    places = [tmp_path / f"hangs-{n}" for n in range(2)]
    hanging = [
        desk.add(
            asset="api", kind="hang", pool="partner_api", lease_s=1, retry=FAST,
            max_concurrency=20, config={"place": str(place)},
        )[0]
        for place in places
    ]  # fmt: skip
    victim = processes.worker(server.first, token, 4, "partner_api")
    wait_until(lambda: all(place.exists() for place in places))
    rest = []
    for n in range(4):
        config = {"place": str(tmp_path / f"seen-{n}.json")}
        given = {"pool": "partner_api", "max_concurrency": 20, "config": config}
        rest += desk.add(asset="api", kind="spy", **given)
    assert running(desk) == 2
    assert {desk.task(task).attempt for task in rest} == {0}
    for task in hanging:  # only canceled tasks do not come back to the next worker
        with desk.database.transaction() as tx:
            operate.cancel(tx, desk.owner, task)
    victim.signal(signal.SIGKILL)
    victim.kill()
    survivor = processes.worker(server.first, token, 4, "partner_api")
    most, done = [0], threading.Event()

    def watch() -> None:
        while not done.is_set():
            most.append(running(desk))

    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(watch)
        ended(desk, *rest, *hanging)
        done.set()
        watching.result()
    assert max(most) <= 2
    assert [desk.task(task).status.value for task in rest] == ["Completed"] * 4
    keys = {
        json.loads((tmp_path / f"seen-{n}.json").read_text())["env"]["API_KEY"] for n in range(4)
    }
    assert keys <= {"one", "two"}
    taken = "SELECT index, task_id FROM slots ORDER BY index"
    assert [row["task_id"] for row in desk.rows(taken)] == [None, None]
    assert survivor.drained() == "drained"
    server.kill()


def running(desk: Desk) -> int:
    [row] = desk.rows("SELECT count(*) AS n FROM tasks WHERE status = 'Running'")
    return int(row["n"])


def test_a_dispatcher_killed_before_it_wakes_anybody_loses_and_doubles_nothing(
    desk: Desk, address: str, tmp_path: Path
) -> None:
    """10: the tasks are committed, and the dispatcher hears of them and dies before it wakes the
    claim that waits; the next one gives each of them to a worker once."""
    place = f"unix:{tmp_path / 'socket'}"
    dying = processes.server(address, tmp_path, place, TALLYMAN_CRASH_AT="notified")
    token = tmp_path / "token"
    token.write_text(desk.token(f"w-{uuid4()}"))
    one = processes.worker(place, token)
    wait_until(lambda: desk.rows(LISTENING))
    tasks = desk.add(3, kind="echo")
    dying.process.communicate(timeout=60)
    assert dying.process.returncode == -signal.SIGKILL
    again = processes.server(address, tmp_path / "again", place)
    ended(desk, *tasks)
    assert [desk.outcomes(task) for task in tasks] == [["success"]] * 3
    assert len(desk.rows("SELECT id FROM tasks")) == 3
    assert one.drained() == "drained"
    assert again.drained() == "drained"
