"""Two runs at once, and a database that goes away in the middle of one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.orchestration.conftest import Home, kill
from tests.spark_servers import wait_until

DAY = "2025-01-01"


@pytest.fixture
def home(empty_home: Callable[[], Home]) -> Home:
    """With a server that ends and is killed as a project's own does."""
    return empty_home().numbers(DAY, 1, 2, 3, 4, 5)


def postmaster(home: Home) -> int:
    return int((home.path / ".tallyman" / "postgres" / "postmaster.pid").read_text().split()[0])


def test_two_runs_started_at_the_same_moment_both_finish(home: Home) -> None:
    words = ("run", "+sum", "--partition", DAY, "--json")
    both = [home.start(*words), home.start(*words)]
    replies = [running.communicate(timeout=240) for running in both]
    assert [running.returncode for running in both] == [0, 0], replies
    runs = home.ok("runs")
    assert [run["status"] for run in runs] == ["success", "success"]
    assert {json.loads(out)["run_id"] for out, _ in replies} == {run["run_id"] for run in runs}
    rows = home.sql("SELECT run_id, asset_name, count(*) FROM materializations GROUP BY 1, 2")
    assert len(rows) == 6
    assert {count for _, _, count in rows} == {"1"}
    # each read what it made or reused itself, never what the other made meanwhile
    mixed = home.sql(
        "SELECT count(*) FROM materializations m, unnest(m.upstream_ids) AS u (id) "
        "JOIN materializations read ON read.id = u.id "
        "WHERE m.status = 'success' AND read.run_id <> m.run_id AND NOT EXISTS ("
        "  SELECT FROM materializations own "
        "  WHERE own.run_id = m.run_id AND own.reused_id = read.id)"
    )
    assert mixed == [["0"]]
    wait_until(lambda: not (home.path / ".tallyman" / "postgres" / "postmaster.pid").exists())


def test_a_run_survives_a_database_that_is_killed_and_comes_back(home: Home) -> None:
    running = home.start("run", "+sum", "--partition", DAY, "--run-id", "through", "--json")
    try:
        wait_until(lambda: list((home.path / "runs").glob("*_through/.staging/*")))
        os.kill(postmaster(home), signal.SIGKILL)
        out, err = running.communicate(timeout=240)
    finally:
        kill(running)
    assert running.returncode == 0, err
    assert json.loads(out)["status"] == "success"
    assert home.states("through") == {
        "numbers": ("success", 1),
        "doubled": ("success", 1),
        "sum": ("success", 1),
    }
    [run] = home.ok("runs")
    assert run["status"] == "success"


def test_independent_assets_run_side_by_side(home: Home) -> None:
    home.pipeline(
        Path(home.path / "pipelines" / "p.py").read_text()
        + '\n\n@tm.asset(key="id", partitioned_by=days)\ndef tripled(numbers):\n'
        '    return numbers.withColumn("n", "n * 3")\n'
    )
    home.ok("run", "--partition", DAY, "--jobs", "2")
    [[overlap]] = home.sql(
        "SELECT a.started_at < b.completed_at AND b.started_at < a.completed_at "
        "FROM materializations a, materializations b "
        "WHERE a.asset_name = 'doubled' AND b.asset_name = 'tripled'"
    )
    assert overlap == "t"
