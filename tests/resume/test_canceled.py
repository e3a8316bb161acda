"""A canceled run leaves no trace, however it was canceled, and says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.waiting import wait_until

PIPELINE = """\
import tallyman as tm

tm.source("raw", "data/raw.jsonl", schema="id string, n int", key="id")
tm.source("dated", "data/{partition}/dated.jsonl", schema="id string, day date, n int", key="id")
days = tm.daily("day", start="2025-01-01", end="2025-01-02")


@tm.asset(key="id")
def changed(raw):
    return raw.update({"n": "n + 1"}).update({"n": "n * 2"}, where="n > 2")


@tm.asset(key="id")
def copied(raw):
    return raw.withColumn("m", "n + 1")


@tm.asset(key="id")
def after(changed):
    return changed.withColumn("m", "n + 1")


@tm.asset(key="id")
def slow(after, copied):
    return after.withColumn("n", "slept(n, 20)")


@tm.asset(key="id")
def waking(raw):
    return raw.update({"n": "held(n, 'PLACE')"})


@tm.asset(key="id", partitioned_by=days)
def daily(dated):
    return dated.update({"n": "n + 1"})
"""


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    made = homes.make(Home, "canceled")
    made.pipeline(PIPELINE.replace("PLACE", str(made.path / "awake")))
    made.data("2025-01-01/dated.jsonl", {"id": "a", "day": "2025-01-01", "n": 1})
    return made.data("raw.jsonl", {"id": "a", "n": 1}, {"id": "b", "n": 2})


def traces(home: Home, run: str) -> list[Path]:
    return [*home.folder(run).rglob("trace"), *home.folder(run).rglob("operation_seq=*")]


def discarded(home: Home, run: str) -> None:
    """The run is canceled, has no trace, and says so."""
    assert home.status(run) == "canceled"
    assert traces(home, run) == []
    assert not (home.folder(run) / ".staging").exists()
    said = home.tallyman("trace", run)
    assert (said.code, said.json["assets"]) == (1, [])
    assert said.json["diagnostic"]["code"] == "RunCancelled"
    assert said.json["diagnostic"]["message"].endswith("was canceled, and its trace was discarded")


def test_cancel_discards_the_trace_of_finished_assets_until_the_run_is_resumed(
    home: Home,
) -> None:
    words = ("changed", "copied", "after", "slow", "--force", "--run-id", "asked", "--json")
    running = home.start("run", *words)
    wait_until(lambda: home.states("asked").get("slow", ("",))[0] == "running")
    assert traces(home, "asked")
    assert home.ok("cancel", "asked")["status"] == "canceled"
    assert running.wait(60)[0] == 130
    discarded(home, "asked")
    assert home.states("asked") == {
        "changed": ("canceled", 1),
        "copied": ("success", 1),
        "after": ("canceled", 1),
        "slow": ("canceled", 1),
    }
    assert home.tallyman("verify", "asked").json["changed_files"] == []
    assert home.tallyman("cancel", "asked").json["error"]["code"] == "not_running"

    # A resume makes what was discarded again, with its trace.
    home.edit('"slept(n, 20)"', '"n"')
    resumed = home.tallyman("resume", "asked")
    home.edit('"n", "n")', '"n", "slept(n, 20)")')  # for the other tests
    assert resumed.json["status"] == "success"
    assert home.states("asked")["changed"] == ("success", 2)
    assert home.states("asked")["copied"] == ("success", 1)
    [changed] = home.ok("trace", "asked", "--asset", "changed")["assets"]
    assert [step["updated"] for step in changed["steps"]] == [2, 1]


def killed(home: Home, run: str) -> None:
    words = ("run", "changed", "--force", "--run-id", run)
    assert home.tallyman(*words, TALLYMAN_CRASH_AT="trace_step@2").code == -9
    assert traces(home, run)


def test_a_killed_run_can_be_canceled_and_leaves_no_trace(home: Home) -> None:
    killed(home, "killed")
    assert home.ok("cancel", "killed")["status"] == "canceled"
    discarded(home, "killed")
    gone = home.tallyman("where", "raw", "id=a", "--run", "killed").json["error"]["message"]
    assert "run killed (canceled, its trace and partial results were discarded)" in gone
    home.ok("verify", "chain")
    assert home.ok("resume", "killed")["status"] == "success"
    assert len(home.ok("trace", "killed")["assets"]) == 1


def test_a_run_that_was_killed_before_it_published_can_be_canceled(home: Home) -> None:
    words = ("run", "changed", "copied", "--force", "--run-id", "late")
    assert home.tallyman(*words, TALLYMAN_CRASH_AT="metadata_written").code == -9
    assert traces(home, "late")
    assert home.ok("cancel", "late")["status"] == "canceled"
    discarded(home, "late")
    assert home.states("late") == {"changed": ("canceled", 1), "copied": ("success", 1)}
    report = json.loads((home.folder("late") / "processing_report.json").read_text())
    assert report["status"] == "canceled"
    assert home.ok("verify", "late")["changed_files"] == []


def test_cleanup_removes_what_a_killed_run_left(home: Home) -> None:
    killed(home, "dead")
    left = f"runs/{home.folder('dead').name}/.staging"
    assert left in home.ok("cleanup", "--older-than", "0s")["attempts"]
    assert traces(home, "dead")
    assert left in home.ok("cleanup", "--older-than", "0s", "--confirm")["attempts"]
    assert traces(home, "dead") == []


def test_a_process_that_wakes_up_after_a_cancel_leaves_no_trace(home: Home) -> None:
    running = home.start("run", "waking", "--run-id", "deaf", "--json")
    wait_until(lambda: list((home.path / "runs").glob("*_deaf/.staging/*/waking.work/*")))
    running.pause()
    assert home.ok("cancel", "deaf", "--timeout", "1")["status"] == "canceled"
    (home.path / "awake").touch()
    running.go_on()
    code, out, err = running.wait(120)
    assert code == 4, (out, err)
    # A Spark server may write for a moment what it was asked for before the cancel.
    home.ok("cleanup", "--older-than", "0s", "--confirm")
    discarded(home, "deaf")
    assert not (home.folder("deaf") / "waking").exists()


def test_the_trace_of_what_was_published_before_stays(home: Home) -> None:
    """A backfill published one of two partitions, and is then given up."""
    partly = home.tallyman("backfill", "daily")
    assert (partly.code, partly.json["succeeded"], partly.json["failed"]) == (1, 1, 1)
    run = partly.json["run_id"]
    assert home.ok("cancel", run)["status"] == "canceled"
    targets = home.ok("trace", run)["assets"]
    assert [(t["partition"], bool(t["steps"])) for t in targets] == [
        ("d:2025-01-01", True),
        ("d:2025-01-02", False),
    ]
    assert targets[1]["reason"] == "the run was canceled, and its trace was discarded"
    assert home.ok("verify", run)["changed_files"] == []
