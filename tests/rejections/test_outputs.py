"""A replay whose asset fills several datasets: all of them have rows of the same results."""

from __future__ import annotations

from collections.abc import Callable

from tests.rejections.conftest import replay, told
from tests.world.home import Home

PIPELINE = """\
import tallyman as tm

raw = tm.source("raw", path="data/raw.jsonl", format="json", key="id", schema="id string, n int")


@tm.asset(
    key="id", thresholds="absolute=0,percentage=1", publish_rejections="bad",
    split={"small": "n < 10", "large": tm.otherwise},
)
def clean(raw):
    return raw.expect("positive", "n > 0")


@tm.asset
def counted(clean):
    return clean.groupBy().agg(n="count(*)")
"""


def skipped_rows(home: Home) -> int:
    [made] = home.ok("run", "clean")["assets"]
    assert made["status"] == "skipped"
    return int(made["rows_out"])


def test_outputs_of_different_generations_are_not_replayed(new_home: Callable[[], Home]) -> None:
    home = new_home().pipeline(PIPELINE)
    home.data("raw.jsonl", {"id": "a", "n": 1}, {"id": "b", "n": -2}, {"id": "c", "n": -3})
    first = home.ok("run", "clean")["run_id"]
    fix = '{"id": "b", "n": 2}\n'
    assert told(replay(home, first, lines=fix)) == (1, 1, 0)
    assert home.rows("small") == home.rows("clean") == [("a", 1), ("b", 2)]

    # ---- a run that finds nothing changed states the rows of the version ----
    assert skipped_rows(home) == 2
    reply = home.printed("run", "clean")
    assert "2 rows out" in reply.stdout

    # ---- one of the datasets went back alone: rows would be added twice, or never ----
    for name in ("clean", "small"):
        moved = "UPDATE version_fragments SET since = {}, until = {} FROM datasets d "
        moved += f"WHERE d.id = dataset_id AND d.name = '{name}' AND since = {{}}"
        moved += " AND until IS NOT DISTINCT FROM {}"
        home.owner(moved.format(1, 2, 2, "NULL"))
        (home.path / "fix.jsonl").write_text(fix if name == "clean" else '{"id": "c", "n": 3}\n')
        refused = home.tallyman("rejections", "replay", first, "--with", "fix.jsonl")
        assert (refused.code, refused.json["error"]["code"]) == (4, "outputs_apart")
        assert "small v2 is not of the result that clean v2 has" in str(refused.json["error"])
        assert home.heads() == {"bad": 1, "clean": 2, "large": 1, "small": 2}
        home.owner(moved.format(2, "NULL", 1, 2))
    assert home.rows("small") == home.rows("clean") == [("a", 1), ("b", 2)]

    # ---- together again, a replay goes on ----
    assert told(replay(home, first, lines='{"id": "c", "n": 30}\n')) == (1, 1, 0)
    assert home.rows("large") == [("c", 30)]
    assert (len(home.rows("clean")), skipped_rows(home)) == (3, 3)
