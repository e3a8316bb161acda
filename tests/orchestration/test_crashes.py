"""Killed at any point, a run resumes: the same result, and what was finished is not done again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tallyman.faults import Point
from tests.orchestration.conftest import Home, kill
from tests.spark_servers import wait_until

DAY = "2025-01-01"
ASSETS = ("numbers", "doubled", "sum")
# The second asset's, where each asset passes: one is finished then, one is at work, one waits.
ONCE = (Point.RUN_REGISTERED, Point.FOLDER_MADE, Point.COMMITTED, Point.REPORT_WRITTEN)
# tests/publication kills runs of changed data at every point, and asks what readers see.
POINTS = (*ONCE, Point.SEGMENT_WRITTEN, Point.FILES_PUT, Point.ASSET_RECORDED)
CASES = [point if point in ONCE else f"{point}@2" for point in POINTS]


def outcome(home: Home, run: str) -> dict[str, Any]:
    """Rows and ledgers of a run, without what names the run."""
    shown = home.ok("show", run)
    found: dict[str, Any] = {"status": shown["status"]}
    for made in shown["assets"]:
        place = home.path / shown["folder"] / made["name"] / f"day={DAY}"
        ledger = json.loads((place / "ledger.json").read_text())
        rows = pq.read_table(place / "output").to_pylist()
        found[made["name"]] = {
            "digest": made["content_digest"],
            "dependency": made["dependency_hash"],
            "fates": made["fates"],
            "balanced": ledger["verification"]["accounting_balanced"],
            "rows": sorted(str({k: v for k, v in row.items() if k != "_tm"}) for row in rows),
        }
    return found


def finished(home: Home, run: str, states: dict[str, tuple[str, int]]) -> dict[str, int]:
    """Assets that succeeded, and when their ledger was written."""
    good = [asset for asset, (status, _) in states.items() if status == "success"]
    [folder] = (home.path / "runs").glob(f"*_{run}") if good else [Path()]
    ledgers = {asset: folder / asset / f"day={DAY}" / "ledger.json" for asset in good}
    return {asset: ledger.stat().st_mtime_ns for asset, ledger in ledgers.items()}


@pytest.fixture(scope="module")
def expected(new_home: Callable[[], Home]) -> tuple[Home, dict[str, Any]]:
    """A run that nothing happened to, in a home that the others use too."""
    home = new_home().numbers(DAY, 1, 2, 3, 4, 5)
    home.ok("run", "+sum", "--partition", DAY, "--run-id", "whole")
    return home, outcome(home, "whole")


@pytest.mark.parametrize("point", CASES)
def test_a_run_killed_anywhere_resumes_to_the_same_result(
    point: str, expected: tuple[Home, dict[str, Any]]
) -> None:
    home, whole = expected
    name = point.replace("@", "-")
    words = ("run", "numbers,doubled,sum", "--force", "--partition", DAY, "--run-id", name)
    killed = home.tallyman(*words, TALLYMAN_CRASH_AT=point)
    assert killed.code == -9, str(killed)

    assert home.ok("show", name)["status"] == "interrupted"
    if point not in (Point.RUN_REGISTERED, Point.REPORT_WRITTEN):
        verdict = home.tallyman("verify", name)
        assert (verdict.code, verdict.json["balanced"]) == (1, False)
    states = home.states(name)
    before = finished(home, name, states)
    assert "running" not in {status for status, _ in states.values()}

    resumed = home.ok("resume", name)
    assert resumed["run_id"] == name
    assert outcome(home, name) == whole
    after = home.states(name)
    assert {status for status, _ in after.values()} == {"success"}
    written = finished(home, name, after)
    for asset in before:
        assert after[asset] == states[asset], f"{asset} was finished and ran again"
        assert written[asset] == before[asset]
    exact = ("--exact",) if point.startswith(Point.OUTPUT_MOVED) else ()
    assert home.ok("verify", name, *exact)["balanced"]


def test_the_last_completed_step_of_a_killed_run_is_known(new_home: Callable[[], Home]) -> None:
    home = new_home().numbers(DAY, 1, 2, 3)
    killed = home.tallyman(
        "run", "+sum", "--partition", DAY, "--run-id", "k", TALLYMAN_CRASH_AT="output_moved@3"
    )
    assert killed.code == -9
    [summed] = [a for a in home.ok("show", "k")["assets"] if a["name"] == "sum"]
    assert (summed["status"], summed["last_completed_operation"]) == ("failed", "10_groupBy")


def test_a_resume_is_refused_while_the_run_is_at_work(home: Home) -> None:
    running = home.start("run", "+sum", "--partition", DAY, "--run-id", "busy")
    try:
        wait_until(lambda: list((home.path / "runs").glob("*_busy/.staging/*")))
        refused = home.tallyman("resume", "busy")
        assert (refused.code, refused.json["error"]["code"]) == (4, "run_busy")
    finally:
        kill(running)
    assert home.ok("resume", "busy")["status"] == "success"


def test_a_run_on_another_machine_is_gone_when_its_lease_is_over(home: Home) -> None:
    home.tallyman(
        "run", "numbers", "--partition", DAY, "--run-id", "far", TALLYMAN_CRASH_AT="folder_made"
    )
    home.sql("UPDATE runs SET executor_node = 'elsewhere/1@1'")  # its process cannot be looked for
    assert home.ok("show", "far")["status"] == "running"
    home.sql("UPDATE runs SET lease_until = now() - interval '1 second'")
    assert home.ok("show", "far")["status"] == "interrupted"
    assert home.ok("resume", "far")["status"] == "success"
