"""Retries and time limits of a run that the command makes itself: as often, and as long, as the
asset says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.waiting import wait_until

PIPELINE = """\
import tallyman as tm

tm.source("orders", "data/orders.jsonl", key="id", schema="id int, v int")
tm.source("many", "data/many.jsonl", key="id", schema="id int, v int")


@tm.asset(key="id", retry=tm.retry(attempts=3, backoff="1s", backoff_cap="1s"))
def stored(orders):
    return orders


@tm.asset(key="id", retry=tm.retry(attempts=2, backoff="0s"))
def twice(orders):
    return orders


@tm.asset(key="id", retry=tm.retry(attempts=3, backoff="0s"))
def divided(orders):
    return orders.withColumn("w", "10 / (v - v)")


@tm.asset(key="id", retry=tm.retry(attempts=2, timeout="2s", backoff="0s"))
def endless(many):
    return many.withColumn("w", "aggregate(sequence(v, 200000), 0L, (a, x) -> a + x % 7)")


@tm.asset(key="id")
def after(endless):
    return endless
"""


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    home = homes.make(Home, "retries").pipeline(PIPELINE)
    home.data("orders.jsonl", {"id": 1, "v": 1})
    home.data("many.jsonl", *({"id": n, "v": 1} for n in range(5_000)))
    home.ok("run", "stored", "twice", "--run-id", "first")
    return home


def blocked(home: Home, name: str, row: int) -> Path:
    """Put a file where the files of the dataset belong; return where its folder is now."""
    [[dataset]] = home.sql(f"SELECT id FROM datasets WHERE name = '{name}'")
    [folder] = (home.path / "warehouse").glob(f"**/{dataset}")
    moved = folder.rename(folder.with_name(f"{dataset}-moved"))
    folder.write_text("in the way")
    home.data("orders.jsonl", {"id": 1, "v": 1}, {"id": row, "v": 2})
    return moved


def cleared(moved: Path) -> None:
    folder = moved.with_name(moved.name.removesuffix("-moved"))
    folder.unlink()
    moved.rename(folder)


def test_a_failure_that_may_pass_is_tried_again(home: Home) -> None:
    moved = blocked(home, "stored", 2)
    running = home.start("run", "stored", "--run-id", "again")
    said = Path(running._said.name, "err")
    wait_until(said.exists)
    wait_until(lambda: not running.process.is_alive() or "try 1 of 3" in said.read_text())
    cleared(moved)
    code, out, err = running.wait()
    assert (code, home.states("again")) == (0, {"stored": ("success", 2)}), err
    assert "The next begins in 1 s." in err
    assert "stored v2 (was v1)" in out
    home.ok("verify", "run", "again")
    assert home.damaged() == []


def test_the_last_failure_is_the_result_and_a_resume_goes_on(home: Home) -> None:
    moved = blocked(home, "twice", 3)
    reply = home.printed("run", "twice", "--run-id", "last")
    assert (reply.code, home.states("last")) == (1, {"twice": ("failed", 2)}), str(reply)
    assert (reply.stderr.count("try 1 of 2 failed"), reply.stderr.count("try 2")) == (1, 0)
    cleared(moved)
    home.ok("resume", "last")
    assert home.states("last") == {"twice": ("success", 3)}


def test_an_error_that_cannot_pass_is_not_tried_again(home: Home) -> None:
    reply = home.printed("run", "divided", "--run-id", "zero")
    assert (reply.code, home.states("zero")) == (1, {"divided": ("failed", 1)})
    assert "try 1" not in reply.stderr


def test_a_time_limit_ends_each_try(home: Home) -> None:
    reply = home.tallyman("run", "+after", "--run-id", "slow")
    states = home.states("slow")
    assert (reply.code, states) == (1, {"endless": ("failed", 2), "after": ("pending", 0)})
    [error] = [made["error"] for made in reply.json["assets"] if made["name"] == "endless"]
    assert error["code"] == "timeout"
    assert error["message"] == "attempt 2 at endless took longer than 2 s."
    assert home.heads()["endless"] == 0
