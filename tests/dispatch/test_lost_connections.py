"""Two servers and four workers whose connections are cut: nothing is lost, nothing done twice."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID, uuid4

import psycopg

from tallyman.control.dispatch.claim import Claimed
from tallyman.control.dispatch.loops import Loops
from tallyman.control.dispatch.report import complete
from tallyman.domain.task.event import Event, Scope
from tallyman.domain.task.fence import AttemptReport, ReportStatus
from tallyman.errors import DatabaseUnavailable
from tallyman.registry.database import Database
from tests.dispatch.desk import Desk, fence_of
from tests.world.databases import owner_of
from tests.world.scale import FULL, by_form

TASKS = by_form(12, 500)
CUTS = 40 if FULL else 3
CUT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database()
"""


def test_connections_are_cut_and_everything_is_done_once(desk: Desk, tmp_path: Path) -> None:
    dataset = uuid4()
    desk.listen(dataset, "totals", lease_s=1)
    desk.add(TASKS, asset="orders", lease_s=1)  # a claim whose answer is lost comes back soon
    accepted: Counter[UUID] = Counter()
    done, counting = threading.Event(), threading.Lock()

    def work(_: int) -> None:
        while not done.is_set():
            try:
                found = desk.claim_next(wait_s=0.05)
            except DatabaseUnavailable:
                continue
            if not isinstance(found, Claimed):
                continue
            event = Event(dataset=dataset, scope=Scope(cursor=str(found.task.id)))
            events = [event] if found.task.asset == "orders" else []
            report = AttemptReport(
                fence=fence_of(found), status=ReportStatus.COMPLETED, events=events
            )
            answer = desk.database.durably(lambda tx, said=report: complete(tx, desk.owner, said))
            with counting:
                accepted[found.task.id] += not answer.duplicate

    servers = []
    for name in ("one", "two"):
        database = Database(desk.address, tmp_path / name)
        servers.append((Loops(database), database))
        servers[-1][0].start()
    try:
        with ThreadPoolExecutor(4) as threads:
            busy = [threads.submit(work, n) for n in range(4)]
            with psycopg.connect(owner_of(desk.address), autocommit=True) as owner:
                cut_until_done(owner)
            done.set()
            for one in busy:
                one.result()
    finally:
        for loops, database in servers:
            loops.stop()
            database.close()
    assert len(desk.tasks("totals")) == TASKS
    assert {t.status.value for t in desk.tasks("totals") + desk.tasks("orders")} == {"Completed"}
    successes = desk.rows(
        "SELECT count(*) AS n FROM attempts WHERE outcome = 'success' GROUP BY task_id"
    )
    assert [row["n"] for row in successes] == [1] * 2 * TASKS
    # A completion whose answer was lost was repeated, and then was a duplicate.
    assert max(accepted.values()) == 1


def cut_until_done(owner: psycopg.Connection) -> None:
    left, cuts = 1, 0
    step = max(1, 2 * TASKS // CUTS)
    while left:
        query = "SELECT count(*) FILTER (WHERE finished_at IS NULL), count(*) FROM tasks"
        [[left, there]] = owner.execute(query).fetchall()
        if there - left > cuts * step and cuts < CUTS:
            cuts += 1
            owner.execute(CUT)
    assert cuts >= 2, "the connections were not cut"
