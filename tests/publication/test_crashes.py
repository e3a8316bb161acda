"""Killed at any point, a run leaves readers with the old or the new, never with some of each; it
resumes to the result of a run that nothing happened to, and does nothing twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tallyman.faults import Point
from tests.publication.conftest import THREE, ThreeHome
from tests.world.home import Row, statuses
from tests.world.scale import some
from tests.world.waiting import wait_until

DAY = "2025-01-01"
ASSETS = ("a", "b", "c")
# Whole datasets and one day of a partitioned one; rows that pass and rows that are grouped.
MIXED = """\
import tallyman as tm

raw = tm.source(
    "raw", path="data/raw.jsonl", format="json", key="id", schema="id string, n int, day date"
)


@tm.asset(key="id")
def a(raw):
    return raw.filter("n > 0", reason="not counted")


@tm.asset(key="id")
def b(a):
    return a.withColumn("n", "n * 2")


@tm.asset(key="day", partitioned_by=tm.daily("day", start="2025-01-01"))
def c(b):
    return b.groupBy("day").agg(total="sum(n)")
"""
TWO_ASSETS = THREE.partition('\n\n@tm.asset(key="id")\ndef c')[0] + "\n"
ONCE = (
    *(Point.RUN_REGISTERED, Point.FOLDER_MADE),
    *(Point.METADATA_WRITTEN, Point.COMMITTED, Point.REPORT_WRITTEN, Point.SEALED),
)
# Of the second asset where each passes: one is finished then, one is at work, one waits.
# tests/trace kills a run at each step of a trace, tests/dispatch a dispatcher.
ELSEWHERE = (Point.TRACE_STEP, Point.NOTIFIED)
CASES = [point if point in ONCE else f"{point}@2" for point in Point if point not in ELSEWHERE]
# Once the first asset is finished, the second one is the first that passes a point.
IN_TURN = [case if "asset_started" in case else case.partition("@")[0] for case in CASES]
PUBLISHED = (Point.COMMITTED, Point.REPORT_WRITTEN, Point.SEALED)
# The run has no folder yet, or is at its end but for the last word.
NOT_UNBALANCED = (Point.RUN_REGISTERED, Point.REPORT_WRITTEN, Point.SEALED)


@pytest.fixture(scope="module")
def mixed(new_home: Callable[[], ThreeHome]) -> ThreeHome:
    """One home for all points: the next run after a crash is the next test."""
    home = write(new_home().pipeline(MIXED), 1)
    home.ok("run", *ASSETS, "--partition", DAY)
    return home


def write(home: ThreeHome, value: int) -> ThreeHome:
    """Two records, of which the second is filtered."""
    rows = [{"id": str(n), "n": n, "day": DAY} for n in (value, -value)]
    return home.data("raw.jsonl", *rows)


def seen(home: ThreeHome, *names: str) -> list[list[Row]]:
    """By our own reader and by a stranger: they agree."""
    inside = [home.rows(name) for name in names]
    assert [home.outside(name) for name in names] == inside
    return inside


def numbers_seen(home: ThreeHome) -> list[object]:
    """The one number of each dataset."""
    found = seen(home, *ASSETS)
    assert [len(rows) for rows in found] == [1, 1, 1]
    a, b, c = (rows[0] for rows in found)
    return [a[1], b[1], c[1]]


def leftovers(home: ThreeHome) -> list[Path]:
    """Folders and metadata in the warehouse that no version has."""
    needed = home.query(
        "SELECT vf.fragment_id::text FROM version_fragments vf UNION SELECT id::text FROM versions"
    )
    known = {str(name) for (name,) in needed}
    below = [*home.path.glob("warehouse/org/*/dataset/*/*/*")]
    assert below
    return [place for place in below if place.name.partition(".")[0] not in known]


def check_clean(home: ThreeHome) -> None:
    home.ok("cleanup", "--older-than", "0s", "--confirm")
    assert leftovers(home) == []
    assert home.damaged() == []


def ledger_of(home: ThreeHome, run: str, asset: str) -> Path:
    below = f"day={DAY}/ledger.json" if asset == "c" else "ledger.json"
    return home.folder(run) / asset / below


def finished(home: ThreeHome, run: str) -> dict[str, tuple[int, int]]:
    """Attempt and time of the ledger of each asset that succeeded."""
    good = {asset: n for asset, (status, n) in home.states(run).items() if status == "success"}
    return {a: (n, ledger_of(home, run, a).stat().st_mtime_ns) for a, n in good.items()}


def fates(home: ThreeHome, run: str, asset: str) -> dict[str, int]:
    ledger = json.loads(ledger_of(home, run, asset).read_text())
    assert ledger["verification"]["accounting_balanced"] is True
    parts = ledger["output_accounting"]["partitions"]
    return {p["partition_type"]: p["record_count"] for p in parts if p["record_count"]}


def test_one_run_killed_at_every_point_in_turn_does_nothing_twice(mixed: ThreeHome) -> None:
    """Each attempt goes on where the one before was killed, and is killed a little later."""
    home, name = mixed, "in-turn"
    was = int(str(home.rows("a")[0][1]))
    old, new = [was, was * 2, was * 2], [was + 1, (was + 1) * 2, (was + 1) * 2]
    heads = home.heads()
    write(home, was + 1)
    words, done = ("run", *ASSETS, "--partition", DAY, "--run-id", name), {}
    for point in IN_TURN:
        killed = home.tallyman(*words, TALLYMAN_CRASH_AT=point)
        assert killed.code == -9, f"{point}: {killed}"
        assert numbers_seen(home) == (new if point in PUBLISHED else old), point
        ended = "success" if point == Point.SEALED else "interrupted"
        assert home.ok("show", name)["status"] == ended
        now = finished(home, name)
        assert {asset: now[asset] for asset in done} == done, f"{point}: finished work was repeated"
        words, done = ("resume", name), now
    check_completed(home, name, heads, new, done)


@pytest.mark.parametrize("point", some(CASES, 2))
def test_killed_anywhere_readers_see_old_or_new_and_a_resume_completes_it(
    point: str, mixed: ThreeHome
) -> None:
    home, name = mixed, point.replace("@", "-")
    was = int(str(home.rows("a")[0][1]))
    old, new = [was, was * 2, was * 2], [was + 1, (was + 1) * 2, (was + 1) * 2]
    heads = home.heads()
    write(home, was + 1)
    words = ("run", *ASSETS, "--partition", DAY, "--run-id", name)
    killed = home.tallyman(*words, TALLYMAN_CRASH_AT=point)
    assert killed.code == -9, str(killed)
    assert numbers_seen(home) == (new if point in PUBLISHED else old)

    # Who wrote the seal had nothing left to say.
    ended = "success" if point == Point.SEALED else "interrupted"
    assert home.ok("show", name)["status"] == ended
    if point not in NOT_UNBALANCED:
        verdict = home.tallyman("verify", name)
        assert (verdict.code, verdict.json["balanced"]) == (1, False)
    assert "running" not in {status for status, _ in home.states(name).values()}
    before = finished(home, name)
    assert point in ONCE or "a" in before
    check_completed(home, name, heads, new, before)


def check_completed(
    home: ThreeHome,
    name: str,
    heads: dict[str, int],
    new: list[int],
    before: dict[str, tuple[int, int]],
) -> None:
    """A resume ends as a run to which nothing happened, and leaves what was finished alone."""
    resumed = home.ok("resume", name)
    assert resumed["run_id"] == name
    assert statuses(resumed) == dict.fromkeys(ASSETS, "success")
    assert resumed["published"] == {dataset: head + 1 for dataset, head in heads.items()}
    assert home.heads() == resumed["published"]
    assert numbers_seen(home) == new
    after = finished(home, name)
    assert set(after) == set(ASSETS)
    assert {asset: after[asset] for asset in before} == before, "what was finished ran again"
    assert fates(home, name, "a") == {"PASS_THROUGH": 1, "FILTERED": 1}
    assert fates(home, name, "c") == {"AGGREGATED": 1}
    assert home.ok("verify", name, "--exact")["balanced"]
    check_clean(home)


def test_killed_from_outside_the_next_run_succeeds(home: ThreeHome) -> None:
    place = "*/b/output/*"
    home.pipeline(TWO_ASSETS).numbers(1)
    home.ok("run")
    old, new = [[("1", 1)], [("1", 2)]], [[("2", 2)], [("2", 4)]]
    home.numbers(2)
    there = set((home.path / "runs").glob(place))
    running = home.start("run")
    wait_until(lambda: set((home.path / "runs").glob(place)) - there)
    running.kill()
    assert seen(home, "a", "b") in (old, new)
    # Nobody goes on with it: what it left is taken away, and the next run does it all.
    check_clean(home)
    assert home.ok("run")["status"] == "success"
    assert seen(home, "a", "b") == new
    check_clean(home)


def test_killed_in_a_cutover_all_is_old_or_all_is_new(home: ThreeHome) -> None:
    home.pipeline(TWO_ASSETS).numbers(1)
    home.ok("run")
    old, new = [[("1", 1)], [("1", 2)]], [[("1", 2)], [("1", 22)]]
    active = "SELECT active_version FROM pipelines"
    before = home.query(active)
    home.edit('"n * 2"', '"n * 11"').edit("return raw", 'return raw.withColumn("n", "n + 1")')
    home.ok("plan")
    assert home.tallyman("apply", TALLYMAN_CRASH_AT=Point.METADATA_WRITTEN).code == -9
    assert (seen(home, "a", "b"), home.query(active)) == (old, before)
    assert home.tallyman("resume", "latest", TALLYMAN_CRASH_AT=Point.COMMITTED).code == -9
    assert seen(home, "a", "b") == new
    assert home.query(active) != before
    assert home.ok("resume", "latest")["published"] == {"a": 2, "b": 2}  # found, not repeated
    assert [commit["kind"] for commit in home.ok("commits")] == ["apply", "run"]
    assert home.refused("apply") == "plan_outdated"
    check_clean(home)
