"""A backfill by workers while workers, servers and connections die: everything is made once."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tests.workers.service import Service
from tests.world.waiting import wait_until

pytestmark = pytest.mark.large  # tests/workers/test_crashes.py is the small form

DAYS = ACCIDENTS = 12
CUT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class Storm:
    def __init__(self, service: Service, seed: int) -> None:
        self.service, self.chance = service, random.Random(seed)
        self.server, self.worker = service.server(), service.worker("--concurrency", "2")

    def accidents(self, count: int) -> None:
        """Let accidents happen, each kind in turn, and each after something was made."""
        kinds = [self.worker_is_killed, self.server_is_killed, self.connections_are_cut]
        self.chance.shuffle(kinds)
        for n in range(count):
            before = self.attempts()
            kinds[n % len(kinds)]()
            wait_until(lambda before=before: self.attempts() > before or self.over())

    def attempts(self) -> int:
        [[count]] = self.service.home.sql("SELECT count(*) FROM attempts")
        return int(count)

    def over(self) -> bool:
        [[left]] = self.service.home.sql("SELECT count(*) FROM runs WHERE status = 'running'")
        return left == "0"

    def worker_is_killed(self) -> None:
        self.worker.close()
        self.worker = self.service.worker("--concurrency", "2")

    def server_is_killed(self) -> None:
        self.server.signal(signal.SIGKILL)
        self.server.wait()
        self.server = self.service.server()

    def connections_are_cut(self) -> None:
        self.service.home.sql(CUT)


@pytest.mark.parametrize("seed", range(3))
def test_after_accidents_a_backfill_is_published_once(
    new_service: Callable[[], Service], seed: int
) -> None:
    service = new_service()
    home, days = service.home, [f"2025-02-{day + 1:02d}" for day in range(DAYS)]
    for day in days:
        home.numbers(day, 1, 2, 3)
    storm = Storm(service, seed)
    words = ("backfill", "+report", "--from", days[0], "--to", days[-1], "--json")
    watching = home.start(*words)
    wait_until(lambda: storm.attempts())
    storm.accidents(ACCIDENTS)
    code, out, err = watching.wait(600)
    assert code == 0, err
    run = json.loads(out)["run_id"]
    assert json.loads(out)["succeeded"] == DAYS
    assert service.tasks(run) == sorted(
        (asset, "Completed") for asset in ("numbers", "sum", "report") for _ in days
    )
    running = "SELECT count(*) FROM tasks WHERE finished_at IS NULL"
    assert home.sql(running) == [["0"]]
    done = (
        "SELECT count(*) FROM attempts WHERE outcome = 'success' GROUP BY task_id "
        "HAVING count(*) <> 1"
    )
    assert home.sql(done) == []
    assert len(home.ok("commits")) == 1
    assert [row[1] for row in home.rows("sum")] == [6] * DAYS
    home.ok("verify", "run", run)
    assert home.damaged() == []
    # What dead attempts left is known to a cleanup: afterwards there is what versions have.
    home.ok("cleanup", "--older-than", "0s", "--confirm")
    published = {
        Path(file["path"]).name
        for [files] in home.query(
            "SELECT f.files FROM fragments f JOIN version_fragments v ON v.fragment_id = f.id"
        )
        for file in cast("list[dict[str, str]]", files)
    }
    assert {file.name for file in (home.path / "warehouse").rglob("part-*.parquet")} == published
