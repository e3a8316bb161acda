"""An edit of the pipeline is planned in words, built aside, and cut over to at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.publication.conftest import ThreeHome
from tests.publication.test_partitions import ONE, TWO, day
from tests.publication.test_partitions import PIPELINE as DAYS
from tests.world.home import statuses
from tests.world.reply import Reply
from tests.world.waiting import wait_until

EVERYTHING = (
    "datasets", "versions", "commits", "runs", "materializations", "fragments", "iceberg_tables",
    "pipelines", "pipeline_versions", "invalidations", "audit_log",
)  # fmt: skip
Pair = tuple[int, int]


def planned(home: ThreeHome) -> dict[str, str]:
    return {one["name"]: one["action"] for one in home.ok("plan")["planned"]}


def active(home: ThreeHome) -> object:
    return home.query("SELECT active_version FROM pipelines")[0][0]


def inside_pair(home: ThreeHome) -> Pair:
    """One question for both, as a reader who wants a consistent pair asks."""
    heads = home.heads()
    return heads["b"], heads["c"]


def outside_pair(home: ThreeHome) -> Pair | None:
    """b, c, and b again: if b has not moved, c was read at the same moment."""
    seen = [home.outside(name) for name in ("b", "c", "b")]
    if seen[0] != seen[2]:
        return None
    first, second = (int(str((rows or [(0, 0)])[0][1])) for rows in seen[:2])
    return first, second


@contextmanager
def polled(home: ThreeHome) -> Iterator[list[tuple[Pair, Pair | None]]]:
    """What readers see while the block is at work."""
    seen: list[tuple[Pair, Pair | None]] = []
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            seen.append((inside_pair(home), outside_pair(home)))

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def test_an_edit_is_built_aside_and_cut_over_to_in_one_commit(home: ThreeHome) -> None:
    home.numbers(1)
    home.ok("run")
    before = active(home)
    counted = home.count(*EVERYTHING)
    reply = home.printed("plan")
    assert reply.code == 0, str(reply)
    text = reply.stdout
    assert text.count("reuse ") == 3
    assert "nothing to apply" in text

    home.edit('"n * 2"', '"n * 10"')
    plan = home.ok("plan")
    told = {p["name"]: (p["action"], p["version"], p["rows"]) for p in plan["planned"]}
    assert told == {"a": ("reuse", 1, 1), "b": ("rebuild", 1, 1), "c": ("rebuild", 1, 1)}
    assert "b" in next(p["reason"] for p in plan["planned"] if p["name"] == "c")
    costs = {p["name"]: p["estimate"] for p in plan["planned"]}
    assert costs["a"] is None  # nothing to build
    assert (costs["b"]["results"], costs["b"]["rows"]) == (1, 1)
    assert costs["b"]["seconds"] > 0
    assert costs["b"]["bytes"] > 0
    assert home.count(*EVERYTHING) == counted
    assert home.count("plans") == {"plans": 2}

    with polled(home) as seen:
        applied = home.ok("apply", plan["id"][:8])
    assert statuses(applied) == {"b": "success", "c": "success"}
    assert applied["published"] == {"b": 2, "c": 2}
    inside, outside = {pair for pair, _ in seen}, {pair for _, pair in seen}
    assert inside <= {(1, 1), (2, 2)}
    assert outside <= {(2, 3), (10, 11), None}
    assert seen[0] == ((1, 1), (2, 3))
    assert len(seen) > 3
    assert (home.rows("c"), home.outside("c")) == ([("1", 11)], [("1", 11)])
    commit = home.ok("commits")[0]
    assert (commit["kind"], commit["versions"]) == ("apply", {"b": 2, "c": 2})
    assert before != active(home) == commit["pipeline_version"]
    assert home.refused("apply", plan["id"]) == "plan_outdated"  # once is enough
    assert set(planned(home).values()) == {"reuse"}

    # Back: the pointers and the pipeline, in one commit, while a run is at work.
    home.numbers(1, 2)
    late = home.start("run", "a", "--run-id", "late", "--json")
    wait_until(lambda: home.target_states("late").get("a") == "running")
    late.pause()
    first = home.ok("commits")[-1]["id"]
    back = home.ok("rollback", "--commit", first[:8], "--message", "too large")
    assert back["versions"] == {"b": 3, "c": 3}
    assert (home.rows("c"), home.outside("b")) == ([("1", 3)], [("1", 2)])
    assert active(home) == before
    newest = home.ok("commits")[0]
    assert (newest["kind"], newest["message"]) == ("rollback", "too large")
    assert len(home.ok("commits")) == 3  # history only grows
    late.go_on()
    lost = Reply(*late.wait())
    assert (lost.code, lost.json["error"]["code"]) == (4, "pipeline_rolled_back"), str(lost)
    for words in (["run"], ["resume", "late"]):
        assert home.refused(*words) == "pipeline_rolled_back"
    assert (home.heads(), active(home)) == ({"a": 1, "b": 3, "c": 3}, before)

    home.numbers(1)

    # On purpose it comes back; what was built is still there and is not built again.
    home.ok("plan")
    again = home.ok("apply")
    assert (set(statuses(again).values()), again["published"]) == ({"skipped"}, {"b": 4, "c": 4})
    assert (home.rows("c"), home.outside("c")) == ([("1", 11)], [("1", 11)])
    assert active(home) == commit["pipeline_version"]
    assert home.ok("run")["commit"] is None
    assert home.damaged() == []


def test_a_plan_is_refused_when_the_world_moved_and_an_equal_result_is_no_version(
    home: ThreeHome,
) -> None:
    home.numbers(1)
    home.ok("run")
    home.edit('"n * 2"', '"n + n"')
    home.ok("plan")
    home.numbers(1, 2)
    assert home.ok("run", "a")["published"] == {"a": 2}
    assert home.refused("apply") == "plan_outdated"

    home.ok("plan")
    home.edit('"n + n"', '"n * 2 + 0"')
    assert home.refused("apply") == "plan_outdated"
    assert home.heads() == {"a": 2, "b": 1, "c": 1}

    # Another way to the same rows: built, compared, and then there is nothing left to do.
    home.numbers(1)
    home.ok("run", "a")
    assert planned(home)["b"] == "rebuild"
    assert home.ok("apply")["published"] == {}
    assert set(planned(home).values()) == {"reuse"}

    # What says nothing about rows rebuilds nothing.
    text = (home.path / "pipelines" / "p.py").read_text()
    head, b, c = text.partition('@tm.asset(key="id")\ndef b')[0], *text.split("\n\n\n")[2:]
    home.pipeline(f"{head.strip()}\n\n\n# moved\n{c.strip()}\n\n\n{b.strip()}\n".replace(
        "def b(a):\n", 'def b(a):\n    """Twice."""\n'))  # fmt: skip
    assert set(planned(home).values()) == {"reuse"}
    runs = home.count("runs", "versions")
    home.ok("apply")
    assert home.count("runs", "versions") == runs


def test_assets_come_go_and_are_renamed_by_a_plan(home: ThreeHome) -> None:
    home.numbers(1, 2)
    home.ok("run")
    home.edit('@tm.asset(key="id")\ndef c', '@tm.asset(key="id", publish="shown")\ndef c')
    assert home.count("versions") == {"versions": 3}
    assert set(planned(home).values()) == {"reuse"}
    home.ok("apply")
    assert home.count("versions", "runs") == {"versions": 3, "runs": 1}
    assert (home.outside("c"), home.outside("shown")) == (None, [("1", 3), ("2", 5)])
    assert home.rows("shown", 1) == home.rows("c", 1)

    more = (home.path / "pipelines" / "p.py").read_text()
    added = '\n\n@tm.asset(key="id")\ndef d(a):\n    return a.filter("n > 1", reason="small")\n'
    home.pipeline(more + added)
    assert planned(home) == {"a": "reuse", "b": "reuse", "c": "reuse", "d": "create"}
    assert home.ok("apply")["published"] == {"d": 1}
    assert home.outside("d") == [("2", 2)]

    home.pipeline(more)
    assert planned(home) == {"a": "reuse", "b": "reuse", "c": "reuse", "d": "remove"}
    removed = home.ok("apply")
    assert removed["versions"] == {"d": 2}
    assert home.outside("d") is None
    assert home.tallyman("read", "d").code == 2
    assert home.rows("d", 1) == [("2", 2)]
    assert set(planned(home).values()) == {"reuse"}  # gone is gone

    # It can come back, by going back and by writing it again.
    home.ok("rollback", "d", "--to", "1")
    assert home.outside("d") == [("2", 2)]
    assert planned(home)["d"] == "remove"
    home.ok("apply")
    assert home.outside("d") is None
    home.pipeline(more + added)
    assert planned(home)["d"] == "create"
    assert home.ok("apply")["published"] == {"d": 5}
    assert (home.rows("d"), home.outside("d")) == ([("2", 2)], [("2", 2)])
    assert home.damaged() == []


def test_other_columns_come_with_all_partitions_or_not_at_all(home: ThreeHome) -> None:
    day(home.pipeline(DAYS.partition('@tm.asset(key="day")')[0]), ONE, 1)
    day(home, TWO, 2)
    home.ok("backfill", "--from", ONE, "--to", TWO)
    home.edit('.withColumn("n", "n * 2")', '.withColumn("m", "n * 2")')
    assert home.refused("run", "--partition", ONE) == "schema_changed"
    assert home.heads() == {"numbers": 1, "doubled": 1}
    assert [len(row) for row in home.outside("doubled") or ()] == [3, 3]
    plan = home.ok("plan")
    [doubled] = [p for p in plan["planned"] if p["name"] == "doubled"]
    assert (doubled["action"], doubled["partitions"]) == ("rebuild", [f"d:{ONE}", f"d:{TWO}"])
    assert home.ok("apply")["published"] == {"doubled": 2}
    assert [row[3] for row in home.outside("doubled") or ()] == [2, 4]

    # A new asset has the partitions of what it reads.
    text = (home.path / "pipelines" / "p.py").read_text()
    home.pipeline(
        f"{text.rstrip()}\n\n\n@tm.asset(key='id', partitioned_by=days)\n"
        "def same(numbers):\n    return numbers\n"
    )
    assert planned(home)["same"] == "create"
    assert home.ok("apply")["published"] == {"same": 1}
    assert home.outside("same") == home.outside("numbers")
