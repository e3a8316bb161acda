"""What stands against it is told at once; what was killed leaves nothing that counts."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.reproduce.conftest import aside, committed, edited, left
from tests.world.numbers import NumbersHome

DAY = "2025-01-01"
NO_SPARK = ("--master", "sc://127.0.0.1:1")
"""Whoever needs Spark fails."""


@pytest.fixture(scope="module")
def home(new_home: Callable[[], NumbersHome]) -> NumbersHome:
    made = new_home().numbers(DAY, 1, 2, 3)
    made.ok("run", "+doubled", "--partition", DAY, "--run-id", "first")
    return made


def refused(home: NumbersHome, run: str) -> tuple[list[str], list[str]]:
    """Reasons against the run, and against its targets."""
    before = left(home)
    reply = home.tallyman("reproduce", run, *NO_SPARK)
    assert (reply.code, reply.json["verdict"]) == (1, "NOT_REPRODUCIBLE"), str(reply)
    assert left(home) == before
    return reply.json["reasons"], [r for t in reply.json["targets"] for r in t["reasons"]]


def test_code_that_was_not_committed_is_only_there_as_a_stored_plan(
    new_home: Callable[[], NumbersHome],
) -> None:
    home = new_home().numbers(DAY, 1, 2, 3)
    commit = committed(home)
    with edited(home.path / "pipelines" / "p.py", "n * 2", "n * 3"):
        home.ok("run", "+doubled", "--partition", DAY, "--run-id", "dirty")
    [version] = home.ok("pipeline-versions")["versions"]
    again = home.ok("reproduce", "dirty")
    assert (again["verdict"], again["stored_version"]) == ("REPRODUCED", version["version"])
    [path] = (home.path / "runs").glob("*_dirty/manifest.json")
    assert commit in path.read_text()
    # Whoever says that it was clean has to say it to the registry.
    with edited(path, '"git_dirty": true', '"git_dirty": false'):
        [reason], _ = refused(home, "dirty")
    assert reason.startswith("manifest.json was changed since it was sealed: sha256 ")


def test_an_input_that_was_changed_is_told_with_both_hashes(home: NumbersHome) -> None:
    with edited(home.path / "data" / DAY / "raw.jsonl", '"n": 2', '"n": 4'):
        _, [reason, *_] = refused(home, "first")
    assert reason.startswith(f"Input data has changed: raw[d:{DAY}]")
    assert reason.count("sha256:") == 2


def test_a_config_that_was_edited_binds_nothing(home: NumbersHome) -> None:
    [config] = (home.path / "runs").glob("*_first/config.json")
    with edited(config, '"percentage": 0.05', '"percentage": 0.5'):
        [reason], _ = refused(home, "first")
        changed = home.tallyman("verify", "inputs", "first").json["first_difference"]
    assert "config.json was changed since it was sealed" in reason
    assert (changed["kind"], changed["name"]) == ("manifest", "config.json")


def test_a_run_that_was_killed_did_not_finish(home: NumbersHome) -> None:
    words = ("run", "+doubled", "--partition", DAY, "--force", "--run-id", "killed")
    home.tallyman(*words, TALLYMAN_CRASH_AT="segment_written")
    home.ok("runs")  # whoever looks at runs first notes that its process is gone
    [reason], _ = refused(home, "killed")
    assert "did not finish" in reason


def test_killed_in_the_middle_it_leaves_nothing_that_counts(home: NumbersHome) -> None:
    before = left(home)
    code, _, _ = home.printed("reproduce", "first", "--json", TALLYMAN_CRASH_AT="segment_written")
    assert code == -signal.SIGKILL
    after = left(home)
    assert (after["counts"], after["files"]) == (before["counts"], before["files"])
    assert len(after["aside"]) == 1
    # The next one removes what this one left.
    assert home.ok("reproduce", "first")["verdict"] == "REPRODUCED"
    assert aside(home) == []
