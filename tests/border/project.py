"""Two pipelines in which every kind of input has several fragments, or several versions."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.pipelines.conftest import NewPipeline
from tests.world.home import Home
from tests.world.reply import Reply

ONE, TWO = "2025-01-01", "2025-01-02"
BORDER = """\
import tallyman as tm

days = tm.daily("day", start="2025-01-01")
raw = tm.source("raw", path="data/{partition}/raw.jsonl", format="json", key="id",
                schema="id string, n int, day date")
kinds = tm.table("kinds", schema="n int not null, label string", key="n")


@tm.asset(key="id", partitioned_by=days, thresholds="absolute=0,percentage=1")
def good(raw):
    return raw.expect("positive", "n > 0")


@tm.asset(key="day")
def per_day(good):
    return good.groupBy("day").agg(n="count(*)")


@tm.asset(key="id", partitioned_by=days)
def by_day(good):
    return good.withColumn("n", "n + 1")


@tm.asset(key="id")
def labelled(good, kinds):
    return good.join(kinds, "n", how="left")


@tm.asset(key="id")
def looked_up(kinds, good):
    return kinds.join(good.select("n AS m", "id"), "n = m", how="left").select("n", "id")
"""
BOARD = """\
import tallyman as tm

tm.dataset("good")


@tm.asset(key="id")
def board(good):
    return good
"""


@dataclass(frozen=True)
class Border:
    home: Home
    board: Home
    first: str
    """The backfill of `good`, whose rejections are replayed."""


def border(new_pipeline: NewPipeline, name: str) -> Border:
    """`good` has two fragments in the first partition, one of a replay, and three versions; the
    table has two fragments and two versions."""
    apart = f"organisation: {name}\n"
    home = new_pipeline(name, apart).pipeline(BORDER)
    day(home, ONE, a=1, b=-1, x=-5)
    day(home, TWO, c=3)
    first = home.ok("backfill", "good", "--from", ONE, "--to", TWO)["run_id"]
    assert corrected(home, first, "b", 2).code == 0
    _load(home, 1, 2)
    _load(home, 3)
    day(home, TWO, c=3, d=4)
    home.ok("run", "good", "-p", TWO)
    home.ok("run", "per_day", "labelled", "looked_up")
    home.ok("backfill", "by_day", "--from", ONE, "--to", TWO)
    board = new_pipeline(f"{name}_board", apart).pipeline(BOARD)
    board.ok("run")
    return Border(home, board, first)


def corrected(home: Home, run: str, key: str, n: int) -> Reply:
    line = json.dumps({"id": key, "n": n, "day": ONE})
    (home.path / "fix.jsonl").write_text(f"{line}\n")
    return home.tallyman("rejections", "replay", run, "--with", "fix.jsonl")


def day(home: Home, of: str, **records: int) -> None:
    home.data(f"{of}/raw.jsonl", *({"id": k, "n": n, "day": of} for k, n in records.items()))


def _load(home: Home, *keys: int) -> None:
    (home.path / "kinds.jsonl").write_text(
        "".join(json.dumps({"n": n, "label": f"l{n}"}) + "\n" for n in keys)
    )
    home.ok("load", "kinds", "kinds.jsonl")
