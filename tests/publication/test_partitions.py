"""Partitions are published on their own: others are neither touched nor in the way."""

from __future__ import annotations

from tests.publication.conftest import ThreeHome
from tests.world.home import statuses
from tests.world.reply import Reply
from tests.world.waiting import wait_until

ONE, TWO, THREE = "2025-01-01", "2025-01-02", "2025-01-03"
PIPELINE = """\
import tallyman as tm

days = tm.daily("day", start="2025-01-01")
raw = tm.source(
    "raw", path="data/{partition}/raw.jsonl", format="json", key="id",
    schema="id string, n int, day date",
)


@tm.asset(key="id", partitioned_by=days)
def numbers(raw):
    return raw


@tm.asset(key="id", partitioned_by=days)
def doubled(numbers):
    return numbers.withColumn("n", "n * 2")


@tm.asset(key="day")
def total(doubled):
    return doubled.groupBy("day").agg(total="sum(n)")
"""
SLOW = """

others = tm.source("others", path="data/others.jsonl", format="json", key="id",
                   schema="id string, n int, day date")


@tm.asset(key="id", partitioned_by=days)
def slow(others):
    return others.withColumn("n", "slept(n, 2)")
"""


def day(home: ThreeHome, text: str, *values: int) -> ThreeHome:
    rows = [{"id": f"{text}/{v}", "n": v, "day": text} for v in values]
    return home.data(f"{text}/raw.jsonl", *rows)


def fragments(home: ThreeHome, dataset: str) -> dict[str, str]:
    """Of the current version: day -> fragment."""
    found = home.query(
        "SELECT substr(f.partition, 3), f.id::text FROM version_fragments vf "
        "JOIN fragments f ON f.id = vf.fragment_id JOIN datasets d ON d.id = vf.dataset_id "
        "WHERE vf.until IS NULL AND d.name = %s",
        dataset,
    )
    return {str(partition): str(fragment) for partition, fragment in found}


def open_invalidations(home: ThreeHome) -> set[tuple[object, ...]]:
    return set(
        home.query(
            "SELECT d.name, i.scope, substr(i.partition, 3), i.reason, c.name, "
            "substr(cause.partition, 3) "
            "FROM invalidations i JOIN datasets d ON d.id = i.dataset_id "
            "LEFT JOIN invalidations cause ON cause.id = i.caused_by "
            "LEFT JOIN datasets c ON c.id = cause.dataset_id "
            "WHERE i.processed_at IS NULL"
        )
    )


def test_two_partitions_at_the_same_time_both_land_and_of_one_partition_one_wins(
    home: ThreeHome,
) -> None:
    home.pipeline(PIPELINE + SLOW)
    day(home, ONE, 1, 2)
    day(home, TWO, 3)
    home.data("others.jsonl", {"id": "x", "n": 1, "day": ONE})
    words = ("run", "numbers,doubled", "--json", "--partition")
    both = [home.start(*words, ONE), home.start(*words, TWO)]
    replies = [Reply(*running.wait()) for running in both]
    assert [reply.code for reply in replies] == [0, 0], replies
    assert {str(reply.json["commit"]) for reply in replies} == {c["id"] for c in home.ok("commits")}
    assert home.heads() == {"numbers": 2, "doubled": 2}
    assert set(fragments(home, "doubled")) == {ONE, TWO}
    assert [row[1] for row in home.outside("doubled") or ()] == [2, 4, 6]

    # One partition, two runs: the first has read it and is at work when the second publishes it.
    day(home, ONE, 1, 2, 7)
    slower = home.start("run", "numbers,slow", "--partition", ONE, "--run-id", "late", "--json")
    wait_until(lambda: home.target_states("late").get(f"numbers[d:{ONE}]") == "success")
    slower.pause()
    assert home.target_states("late")[f"slow[d:{ONE}]"] != "success"
    day(home, ONE, 8)
    assert home.ok("run", "numbers", "--partition", ONE)["published"] == {"numbers": 3}
    slower.go_on()
    lost = Reply(*slower.wait())
    assert lost.code == 4, str(lost)
    assert set(lost.json) == {"error", "code", "manifest_conflict"}
    assert lost.json["code"] == "conflict"
    expected = {"table_key": "numbers", "expected": 2, "actual": 3}
    assert lost.json["manifest_conflict"] == expected
    assert home.status("late") == "failed"
    assert sorted(row[1] for row in home.rows("numbers")) == [3, 8]
    assert home.heads() == {"numbers": 3, "doubled": 2, "slow": 0}
    # Simply run again: nothing has to be made anew.
    again = home.ok("run", "numbers,slow", "--partition", ONE)
    assert statuses(again) == {"numbers": "skipped", "slow": "skipped"}
    assert again["published"] == {"slow": 1}
    assert home.damaged() == []


def test_replacing_one_day_leaves_the_others_and_tells_what_was_made_from_it(
    home: ThreeHome,
) -> None:
    home.pipeline(PIPELINE)
    day(home, ONE, 1, 2)
    day(home, THREE, 5)
    words = ("backfill", "numbers,doubled", "--from", ONE, "--to", THREE)
    partly = home.tallyman(*words)  # the second day has no file yet
    assert (partly.code, partly.json["succeeded"], partly.json["failed"]) == (1, 2, 1)
    [commit] = home.ok("commits")
    assert commit["versions"] == {"numbers": 1, "doubled": 1}
    assert set(fragments(home, "doubled")) == {ONE, THREE}

    day(home, TWO, 3)
    rest = home.ok("resume", partly.json["run_id"])
    assert rest["published"] == {"numbers": 2, "doubled": 2}
    before = fragments(home, "numbers")
    assert set(before) == {ONE, TWO, THREE}
    home.ok("run", "total")
    assert open_invalidations(home) == set()

    day(home, TWO, 4)
    assert home.ok("run", "numbers", "--partition", TWO)["published"] == {"numbers": 3}
    after = fragments(home, "numbers")
    assert {p for p in before if before[p] != after[p]} == {TWO}
    assert [row[1] for row in home.outside("numbers") or ()] == [1, 2, 4, 5]
    assert open_invalidations(home) == {
        ("doubled", "partition", TWO, "upstream", "numbers", TWO),
        ("total", "whole", None, "upstream", "numbers", TWO),
    }
    replaced = home.query(
        "SELECT substr(partition, 3), scope FROM invalidations WHERE reason = 'replaced'"
    )
    assert replaced == [(TWO, "partition")]

    # Made again, step by step: told no longer.
    home.ok("run", "doubled", "--partition", TWO)
    assert {row[0] for row in open_invalidations(home)} == {"total"}
    home.ok("run", "total")
    assert open_invalidations(home) == set()
    assert [row[1] for row in home.rows("total")] == [6, 8, 10]
    assert home.damaged() == []
