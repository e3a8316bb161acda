"""How fast tasks are claimed and completed, and how long a worker takes to react.

    python benchmarks/dispatch.py [--tasks 3000] [--workers 4] [--save]

Prints a table: tasks per second and p99 of a claim, in process and over HTTP, with the
protocol alone; the time from the commit of an event until an idle worker has the task; how long
after its lease the task of a dead worker is taken over; and, with Spark, the time from an event
until the result of 1,000 rows is published, and that of a task whose inputs are unchanged.
PostgreSQL is the embedded one, with its usual durability. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import warm_worker

from tallyman.control.dispatch import operate
from tallyman.control.dispatch.claim import Claimed, claim_next
from tallyman.control.dispatch.emit import emit
from tallyman.control.dispatch.loops import Loops
from tallyman.control.dispatch.report import complete
from tallyman.domain.task.event import Event, Scope
from tallyman.domain.task.fence import AttemptReport, Fence, ReportStatus
from tallyman.domain.task.retry import RetryPolicy
from tallyman.domain.task.task import NewTask, TaskTemplate, TriggerKind
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Database
from tallyman.registry.task.events import Listeners
from tallyman.registry.task.pools import Pools
from tallyman.registry.task.wakeups import Wakeups
from tallyman.registry.task.worker_tokens import WorkerTokens
from tallyman.settings import Secret
from tallyman.worker.client import ServerClient

OWNER = Owner("default", "bench")
TEMPLATE = TaskTemplate(project="bench", asset="orders", kind="nothing")
SERVER = """
import sys
from pathlib import Path
from tallyman.registry.database import Database
from tallyman.server.serve import serve

database = Database(sys.argv[1], Path(sys.argv[2]), most_idle=32)
serve(database, "127.0.0.1:0", ready=lambda address: print(address, flush=True))
database.close()
"""
RESULTS = Path(__file__).parent / "results" / "dispatch.json"
Row = dict[str, float]
Claims = Callable[[str], Fence | None]
Ends = Callable[[Fence], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=3000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    tasks, workers = given.tasks, given.workers
    logging.getLogger("tallyman").setLevel(logging.ERROR)  # tasks are given up on purpose
    load, rows = os.getloadavg()[0], dict[str, Row]()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        database = Database(None, Path(folder), most_idle=32)
        wakeups = Wakeups(database)
        with database.transaction() as tx:
            Pools(tx).define(OWNER, "default")
        rows["claimed and completed, in process"] = in_process(database, wakeups, tasks, workers)
        rows["claimed and completed, over HTTP"] = over_http(database, Path(folder), tasks, workers)
        rows["event to claimed by an idle worker"] = of_seconds(reaction(database, wakeups))
        rows["end of a lease to taken over"] = of_seconds(takeover(database, wakeups))
        wakeups.close()
        database.close()
    for name, took in warm_worker.measured(rounds=8).items():
        rows[name] = of_seconds(took)
    for name, row in rows.items():
        print(f"{name:40}", *(f"{key} {value:,.1f}  " for key, value in row.items()))
    if given.save:
        save(rows, load_before=round(load, 1), tasks=tasks, workers=workers)


def save(rows: dict[str, Row], **given: float) -> None:
    date, machine = f"{datetime.now(UTC):%Y-%m-%d}", f"{os.cpu_count()} cores, {platform.machine()}"
    kept = {"date": date, "machine": machine, **given, "results": rows}
    RESULTS.write_text(json.dumps(kept, indent=2) + "\n")


def of_seconds(took: list[float]) -> Row:
    return {
        "median_ms": round(statistics.median(took) * 1000, 1),
        "longest_ms": round(max(took) * 1000, 1),
    }


def add(database: Database, count: int) -> None:
    with database.transaction() as tx:
        operate.create(
            tx,
            [
                NewTask(template=TEMPLATE, trigger=TriggerKind.MANUAL, dedupe_key=str(uuid4()))
                for _ in range(count)
            ],
        )


def measure(workers: int, claims: Claims, ends: Ends) -> Row:
    took: list[float] = []

    def work(_: int) -> int:
        done = 0
        while True:
            begun = time.perf_counter()
            fence = claims(f"w-{uuid4()}")
            if fence is None:
                return done
            took.append(time.perf_counter() - begun)
            ends(fence)
            done += 1

    begun = time.perf_counter()
    with ThreadPoolExecutor(workers) as threads:
        done = sum(threads.map(work, range(workers)))
    rate = done / (time.perf_counter() - begun)
    cuts = statistics.quantiles(took, n=100)
    return {
        "tasks_per_s": round(rate),
        "claim_p50_ms": round(cuts[49] * 1000, 1),
        "claim_p99_ms": round(cuts[98] * 1000, 1),
    }


def in_process(database: Database, wakeups: Wakeups, tasks: int, workers: int) -> Row:
    add(database, tasks)

    def claims(worker: str) -> Fence | None:
        found = claim_next(database, wakeups, OWNER, ["default"], worker, 0)
        return fence_of(found) if isinstance(found, Claimed) else None

    def ends(fence: Fence) -> None:
        with database.transaction() as tx:
            complete(tx, OWNER, AttemptReport(fence=fence, status=ReportStatus.COMPLETED))

    return measure(workers, claims, ends)


def over_http(database: Database, folder: Path, tasks: int, workers: int) -> Row:
    with database.transaction() as tx:
        token = WorkerTokens(tx).add(OWNER, "bench")
    add(database, tasks)
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, database.url(), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    client = ServerClient(server.stdout.readline().strip(), Secret(token))

    def claims(worker: str) -> Fence | None:
        found = client.post("/internal/task-claim", {"worker_id": worker})
        if found["status"] != "Claimed":
            return None
        token, attempt = UUID(found["lease_token"]), found["attempt"]
        return Fence(task=UUID(found["task"]["task_id"]), attempt=attempt, lease_token=token)

    def ends(fence: Fence) -> None:
        given = {"task_id": str(fence.task), "attempt": fence.attempt}
        given |= {"lease_token": str(fence.lease_token), "status": "Completed"}
        client.post("/internal/task-complete", given)

    row = measure(workers, claims, ends)
    server.terminate()
    server.wait()
    return row


def reaction(database: Database, wakeups: Wakeups, rounds: int = 30) -> list[float]:
    """From the commit of an event until an idle worker has its task."""
    dataset = uuid4()
    with database.transaction() as tx:
        Listeners(tx).add(dataset, TaskTemplate(project="bench", asset="totals", kind="nothing"))
    took: list[float] = []
    add(database, 1)
    fence = fence_of(claim_next(database, wakeups, OWNER, ["default"], "feed", 5))
    for n in range(rounds):
        waits = threading.Event()

        def idle(waits: threading.Event = waits) -> float:
            waits.set()
            found = claim_next(database, wakeups, OWNER, ["default"], f"w-{uuid4()}", 5)
            assert isinstance(found, Claimed)
            return time.perf_counter()

        with ThreadPoolExecutor(1) as threads:
            got = threads.submit(idle)
            waits.wait()
            time.sleep(0.05)  # the worker is idle
            begun = emit_one(database, fence, Event(dataset=dataset, scope=Scope(cursor=str(n))))
            took.append(got.result() - begun)
    return took


def takeover(database: Database, wakeups: Wakeups, rounds: int = 5) -> list[float]:
    """From the end of the lease of a worker that fell silent until another one has its task."""
    often = RetryPolicy(attempts=100)
    short = TaskTemplate(project="bench", asset="dead", kind="nothing", lease_s=1, retry=often)
    task = NewTask(template=short, trigger=TriggerKind.MANUAL, dedupe_key=str(uuid4()))
    loops = Loops(database)
    loops.start()
    with database.transaction() as tx:
        operate.create(tx, [task])
    took: list[float] = []
    lease_ends = None
    for _ in range(rounds + 1):
        found = claim_next(database, wakeups, OWNER, ["default"], f"w-{uuid4()}", 20)
        assert isinstance(found, Claimed)
        if lease_ends is not None:
            took.append(time.perf_counter() - lease_ends)
        lease_ends = time.perf_counter() + short.lease_s
    loops.stop()
    return took


def emit_one(database: Database, fence: Fence, event: Event) -> float:
    with database.transaction() as tx:
        emit(tx, OWNER, fence, [event])
    return time.perf_counter()


def fence_of(found: object) -> Fence:
    assert isinstance(found, Claimed)
    assert found.task.lease_token is not None
    return Fence(task=found.task.id, attempt=found.task.attempt, lease_token=found.task.lease_token)


if __name__ == "__main__":
    main()
