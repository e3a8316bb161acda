"""Killed at any point, a run leaves readers with the old or the new, never with some of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tallyman.faults import Point
from tests.publication.conftest import THREE, Home, Row, statuses
from tests.spark_servers import wait_until

TWO_ASSETS = THREE.partition('\n\n@tm.asset(key="id")\ndef c')[0] + "\n"
ONCE = (Point.METADATA_WRITTEN, Point.COMMITTED, Point.REPORT_WRITTEN, Point.SEALED)
EARLIER = (Point.RUN_REGISTERED, Point.FOLDER_MADE)
# Of the second asset where each passes: one is finished then, and must not be seen by itself.
CASES = [p if p in ONCE else f"{p}@2" for p in Point if p not in (*EARLIER, Point.TRACE_STEP)]
AFTER = (Point.COMMITTED, Point.REPORT_WRITTEN, Point.SEALED)


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, new_home: Callable[[Path], Home]
) -> Iterator[Home]:
    """One home for all of them: the next run after a crash is the next test."""
    home = new_home(tmp_path_factory.mktemp("home")).pipeline(TWO_ASSETS).numbers(0)
    home.ok("run")
    yield home
    home.close()


def expected(value: int) -> tuple[list[Row], list[Row]]:
    return [(str(value), value)], [(str(value), value * 2)]


def seen(home: Home) -> tuple[list[Row], list[Row]]:
    """By our own reader and by a stranger: they agree."""
    inside = home.rows("a"), home.rows("b")
    assert (home.outside("a"), home.outside("b")) == inside
    return inside


def leftovers(home: Home) -> list[Path]:
    """Folders and metadata in the warehouse that no version has."""
    needed = home.query(
        "SELECT vf.fragment_id::text FROM version_fragments vf UNION SELECT id::text FROM versions"
    )
    known = {str(name) for (name,) in needed}
    below = [*home.path.glob("warehouse/org/*/dataset/*/*/*")]
    return [place for place in below if place.name.partition(".")[0] not in known]


def check_clean(home: Home) -> None:
    home.ok("cleanup", "--older-than", "0s", "--confirm")
    assert leftovers(home) == []
    assert home.damaged() == []


@pytest.mark.parametrize("point", CASES)
def test_killed_anywhere_readers_see_old_or_new(point: str, shared: Home) -> None:
    home, name = shared, point.replace("@", "-")
    was = int(str(home.rows("a")[0][1]))
    heads = home.heads()
    home.numbers(was + 1)
    killed = home.tallyman("run", "--run-id", name, TALLYMAN_CRASH_AT=point)
    assert killed.code == -9, str(killed)
    done = point in AFTER
    assert seen(home) == expected(was + 1 if done else was)

    resumed = home.ok("resume", name)
    assert set(statuses(resumed).values()) == {"success"}
    assert resumed["published"] == {dataset: head + 1 for dataset, head in heads.items()}
    assert seen(home) == expected(was + 1)
    assert home.heads() == resumed["published"]
    check_clean(home)


@pytest.mark.parametrize("place", ["*/.staging/*", "*/b/output/*"])
def test_killed_from_outside_the_next_run_succeeds(place: str, shared: Home) -> None:
    home = shared
    was = int(str(home.rows("a")[0][1]))
    home.numbers(was + 1)
    there = set((home.path / "runs").glob(place))
    running = home.start("run")
    wait_until(lambda: set((home.path / "runs").glob(place)) - there)
    running.kill()
    assert seen(home) in (expected(was), expected(was + 1))
    # Nobody goes on with it: what it left is taken away, and the next run does it all.
    check_clean(home)
    assert home.ok("run")["status"] == "success"
    assert seen(home) == expected(was + 1)
    check_clean(home)


def test_killed_in_a_cutover_all_is_old_or_all_is_new(home: Home) -> None:
    home.pipeline(TWO_ASSETS).numbers(1)
    home.ok("run")
    old, new = ([("1", 1)], [("1", 2)]), ([("1", 2)], [("1", 22)])
    active = "SELECT active_version FROM pipelines"
    before = home.query(active)
    home.edit('"n * 2"', '"n * 11"').edit("return raw", 'return raw.withColumn("n", "n + 1")')
    home.ok("plan")
    assert home.tallyman("apply", TALLYMAN_CRASH_AT=Point.METADATA_WRITTEN).code == -9
    assert (seen(home), home.query(active)) == (old, before)
    assert home.tallyman("resume", "latest", TALLYMAN_CRASH_AT=Point.COMMITTED).code == -9
    assert seen(home) == new
    assert home.query(active) != before
    assert home.ok("resume", "latest")["published"] == {"a": 2, "b": 2}  # found, not repeated
    assert [commit["kind"] for commit in home.ok("commits")] == ["apply", "run"]
    assert home.refused("apply") == "plan_outdated"
    check_clean(home)
