"""Servers and workers as processes on a PostgreSQL of their own, accidents from a seed, and what
must hold when everything has calmed down. The oracle reads the tables and uses no rule of the code.
"""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psutil
from psycopg.conninfo import conninfo_to_dict

from tallyman.domain.task.retry import RetryPolicy
from tallyman.errors import DatabaseUnavailable
from tests.dispatch import processes
from tests.dispatch.desk import Desk
from tests.dispatch.processes import Process
from tests.world.waiting import wait_until
from tests.world.wire import Wire, hang_up

T = TypeVar("T")

CHAIN = ("feed", "clean", "totals")
SCOPES = 2
SLOTS = 3
PATIENT = RetryPolicy(attempts=90, timeout_s=600, backoff_s=0, backoff_cap_s=0)
"""Any number of accidents may hit one task."""
LONGEST_S = 60.0
SEEN = """
    SELECT (SELECT count(*) FROM tasks WHERE status = 'Running') AS running,
           (SELECT count(*) FROM slots WHERE task_id IS NOT NULL) AS taken,
           (SELECT count(*) FROM tasks WHERE finished_at IS NULL) AS unfinished,
           (SELECT count(*) FROM tasks WHERE status = 'Completed') AS completed
"""
LEFT = """
    SELECT (SELECT count(*) FROM attempts WHERE outcome IS NULL) AS open_attempts,
           (SELECT count(*) FROM tasks WHERE status <> 'Completed') AS not_completed,
           (SELECT count(*) FROM tasks WHERE pool <> 'two') AS elsewhere,
           (SELECT count(*) FROM (SELECT task_id FROM attempts GROUP BY task_id
            HAVING count(*) FILTER (WHERE outcome = 'success') <> 1)) AS not_one_success,
           (SELECT count(*) FROM tasks t WHERE t.attempt <> (
               SELECT count(*) FROM attempts a WHERE a.task_id = t.id)) AS attempts_missing,
           (SELECT count(*) FROM attempts a JOIN tasks t ON t.id = a.task_id
            WHERE a.outcome = 'success' AND a.attempt <> t.attempt) AS success_of_an_old_attempt,
           (SELECT count(*) FROM events e WHERE 1 <> (
               SELECT count(*) FROM tasks t WHERE t.event_id = e.id)) AS events_without_one_task
"""
CUT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database()
"""
OF_WORKER = "SELECT count(*) AS n FROM tasks WHERE status = 'Running' AND worker LIKE %s"


@dataclass
class Storm:
    desk: Desk
    wire: Wire
    folder: Path
    random: random.Random
    token_file: Path
    servers: list[Process] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)
    feeds: int = 0
    happened: list[str] = field(default_factory=list)
    plant: str = ""
    """The name of a bug in `test_chaos` that the servers have."""

    # ---- setting up -------------------------------------------------------------------------

    def start(self, workers: int) -> None:
        self.desk.pool("two", [{}] * SLOTS)
        self.datasets: dict[str, UUID] = {name: uuid4() for name in CHAIN[:-1]}
        second = [{"dataset_uuid": str(self.datasets["clean"])}]
        rest: dict[str, Any] = {"kind": "echo", "pool": "two", "lease_s": 1, "retry": PATIENT}
        clean = {"events": second, "seconds": 0.05}
        self.desk.listen(self.datasets["feed"], "clean", config=clean, **rest)
        self.desk.listen(self.datasets["clean"], "totals", config={}, **rest)
        self.servers = [self.server(n) for n in range(2)]
        self.workers = [self.worker() for _ in range(workers)]

    def server(self, n: int) -> Process:
        env = {"TALLYMAN_TEST_PLANT": self.plant}
        bind = f"unix:{self.folder / f's{n}'}"
        return processes.server(self.through_the_wire(), self.folder, bind, **env)

    def worker(self) -> Process:
        place = self.random.randrange(2)
        return processes.worker(f"unix:{self.folder / f's{place}'}", self.token_file, 2, "two")

    def through_the_wire(self) -> str:
        url = self.desk.database.url()
        host = conninfo_to_dict(url)["host"]
        assert host is not None
        return url.replace(str(host), str(self.wire.folder))

    def add(self, count: int) -> None:
        cursors = [
            {"dataset_uuid": str(self.datasets["feed"]), "cursor": str(n)} for n in range(SCOPES)
        ]
        config = {"meanwhile": cursors[:1], "events": cursors, "seconds": 0.2}
        self.patiently(
            lambda: self.desk.add(
                count, "feed", kind="echo", pool="two", lease_s=1, retry=PATIENT, config=config
            )
        )
        self.feeds += count

    # ---- accidents --------------------------------------------------------------------------

    def accident(self) -> None:
        """Let something happen while there is work, and wait until the work goes on."""
        self.add(2)
        before = self.look()["completed"]
        happens = self.random.choice(self.next_accidents())
        self.happened.append(happens.__name__)
        happens()
        wait_until(lambda: self.look()["completed"] > before, LONGEST_S)

    def next_accidents(self) -> list[Callable[[], None]]:
        """Those that did not happen yet, and then any."""
        all_of_them = [
            self.server_is_killed, self.worker_is_killed, self.worker_sleeps,
            self.connections_are_cut, self.database_is_killed, self.replies_are_lost,
        ]  # fmt: skip
        return [one for one in all_of_them if one.__name__ not in self.happened] or all_of_them

    def server_is_killed(self) -> None:
        n = self.random.randrange(2)
        self.servers[n].kill()
        self.servers[n] = self.server(n)

    def worker_is_killed(self) -> None:
        n = self.random.randrange(len(self.workers))
        self.workers[n].kill()
        self.workers[n] = self.worker()

    def worker_sleeps(self) -> None:
        """Until others have taken over what it did: then it goes on as if nothing had been."""
        one = self.random.choice(self.workers)
        one.signal(signal.SIGSTOP)
        like = f"%-{one.process.pid}-%"
        wait_until(lambda: self.rows(OF_WORKER, like)[0]["n"] == 0, LONGEST_S)
        one.signal(signal.SIGCONT)

    def connections_are_cut(self) -> None:
        self.rows(CUT)

    def database_is_killed(self) -> None:
        """With all of its processes at once, as when a machine goes down; then it is started."""
        file = self.desk.database.state / "postgres" / "postmaster.pid"
        leader = psutil.Process(int(file.read_text().split()[0]))
        for one in (leader, *leader.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self.look()  # whoever asks an embedded server starts it

    def replies_are_lost(self) -> None:
        before = self.wire.cut
        self.wire.lose(self.random.randrange(1, 6), reply=True)
        wait_until(lambda: self.wire.cut > before, LONGEST_S)

    # ---- the oracle -------------------------------------------------------------------------

    def rows(self, query: str, *given: Any) -> list[dict[str, Any]]:
        return self.patiently(lambda: self.desk.rows(query, *given))

    def patiently(self, ask: Callable[[], T]) -> T:
        """Ask again while the database does not answer: the test's connections are cut too."""
        until = time.monotonic() + LONGEST_S
        while True:
            try:
                return ask()
            except DatabaseUnavailable:
                assert time.monotonic() < until, self.happened

    def look(self) -> dict[str, Any]:
        """Count, and check what holds after every transaction."""
        [row] = self.rows(SEEN)
        assert row["running"] == row["taken"] <= SLOTS, (row, self.happened)
        return row

    def afterwards(self) -> None:
        """Wait until all is done, and check what must hold then."""
        wait_until(lambda: self.look()["unfinished"] == 0, LONGEST_S)
        assert self.rows(LEFT) == [dict.fromkeys(self.rows(LEFT)[0], 0)], self.happened
        each = self.feeds * SCOPES
        tasks = self.rows("SELECT asset, count(*) AS n FROM tasks GROUP BY asset")
        # A correct server makes exactly these: each feed two events, each of them one more.
        assert {row["asset"]: row["n"] for row in tasks} == {
            "feed": self.feeds, "clean": each, "totals": each,
        }  # fmt: skip
        assert self.rows("SELECT count(*) AS n FROM events") == [{"n": 2 * each}]
        assert self.look()["running"] == 0
        for one in (*self.workers, *self.servers):
            assert one.drained() == "drained"

    def end(self) -> None:
        for one in (*self.workers, *self.servers):
            if one.process.poll() is None:
                one.signal(signal.SIGCONT)
            one.kill()


@contextmanager
def storm(seed: int, workers: int, plant: str = "") -> Iterator[Storm]:
    # Not below pytest's own folder: PostgreSQL runs as another user if the tests run as root.
    with tempfile.TemporaryDirectory(prefix="storm-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        desk = Desk(None, folder / "state")
        known = conninfo_to_dict(desk.database.url())
        port = int(known["port"] or 0)
        (folder / "wire").mkdir()
        wire = Wire(Path(str(known["host"])) / f".s.PGSQL.{port}", folder / "wire", port)
        listening = wire.open()
        token_file = folder / "token"
        token_file.write_text(desk.token())
        made = Storm(desk, wire, folder, random.Random(seed), token_file, plant=plant)
        try:
            made.start(workers)
            yield made
        finally:
            made.end()
            hang_up(listening)
            desk.close()
