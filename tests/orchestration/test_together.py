"""Two runs at once, and a database that goes away in the middle of one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.world.homes import INTERPRETED
from tests.world.numbers import PIPELINE, NumbersHome
from tests.world.reply import Reply
from tests.world.waiting import wait_until

DAY = "2025-01-01"


@pytest.fixture
def home(
    tmp_path: Path, spark_server: str, with_database: Callable[[Path], Path]
) -> Iterator[NumbersHome]:
    """A project with a PostgreSQL server of its own, which ends with its last user."""
    (tmp_path / "tallyman.yaml").write_text(f"name: own\nmaster: {spark_server}\n{INTERPRETED}")
    with_database(tmp_path)
    made = NumbersHome(tmp_path).pipeline(PIPELINE)
    yield made.numbers(DAY, 1, 2, 3, 4, 5)
    made.close()


def postmaster(home: NumbersHome) -> int:
    return int((home.path / ".tallyman" / "postgres" / "postmaster.pid").read_text().split()[0])


def test_two_runs_started_at_the_same_moment_both_finish(home: NumbersHome) -> None:
    words = ("run", "+sum", "--partition", DAY, "--json")
    both = [home.start(*words), home.start(*words)]
    replies = [Reply(*running.wait()) for running in both]
    assert [reply.code for reply in replies] == [0, 0], replies
    runs = home.ok("runs")
    assert [run["status"] for run in runs] == ["success", "success"]
    assert {reply.json["run_id"] for reply in replies} == {run["run_id"] for run in runs}
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
    home.close()
    wait_until(lambda: not (home.path / ".tallyman" / "postgres" / "postmaster.pid").exists())


def test_a_run_survives_a_database_that_is_killed_and_comes_back(home: NumbersHome) -> None:
    running = home.start("run", "+sum", "--partition", DAY, "--run-id", "through", "--json")
    wait_until(lambda: list((home.path / "runs").glob("*_through/.staging/*")))
    os.kill(postmaster(home), signal.SIGKILL)
    reply = Reply(*running.wait())
    assert reply.code == 0, str(reply)
    assert reply.json["status"] == "success"
    assert home.states("through") == {
        "numbers": ("success", 1),
        "doubled": ("success", 1),
        "sum": ("success", 1),
    }
    [run] = home.ok("runs")
    assert run["status"] == "success"


def test_independent_assets_run_side_by_side(home: NumbersHome) -> None:
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
