"""A replay whose asset fills several datasets: all of them have rows of the same results."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
APPENDS = """\
import tallyman as tm

raw = tm.source("raw", path="data/raw.jsonl", format="json", key="id", schema="id string, n int")


@tm.asset(
    key="id", unique_key="id", update_strategy="append", thresholds="absolute=0,percentage=1"
)
def clean(raw):
    return raw.expect("positive", "n > 0")
"""
FIX = '{"id": "b", "n": 2}\n'


def skipped_rows(home: Home) -> int:
    [made] = home.ok("run", "clean")["assets"]
    assert made["status"] == "skipped"
    return int(made["rows_out"])


@pytest.fixture(scope="module")
def replayed(new_home: Callable[[], Home]) -> tuple[Home, str]:
    home = new_home().pipeline(PIPELINE)
    home.data("raw.jsonl", {"id": "a", "n": 1}, {"id": "b", "n": -2}, {"id": "c", "n": -3})
    first = home.ok("run", "clean")["run_id"]
    assert told(replay(home, first, lines=FIX)) == (1, 1, 0)
    assert home.rows("small") == home.rows("clean") == [("a", 1), ("b", 2)]
    return home, first


def test_a_run_that_skips_an_asset_states_the_rows_that_readers_see(
    replayed: tuple[Home, str],
) -> None:
    home, _ = replayed
    assert skipped_rows(home) == len(home.rows("clean"))
    reply = home.printed("run", "clean")
    assert f"{len(home.rows('clean'))} rows out" in reply.stdout


def test_a_replay_after_a_rollback_adds_no_row_twice(replayed: tuple[Home, str]) -> None:
    home, first = replayed
    home.ok("rollback", "small", "--to", "1")
    assert home.rows("small") == home.rows("clean") == [("a", 1)]
    assert told(replay(home, first, lines=FIX)) == (1, 1, 0)
    assert home.rows("small") == home.rows("clean") == [("a", 1), ("b", 2)]
    assert told(replay(home, first, lines='{"id": "c", "n": 30}\n')) == (1, 1, 0)
    assert home.rows("large") == [("c", 30)]
    assert (len(home.rows("clean")), skipped_rows(home)) == (3, 3)


def test_an_asset_that_appends_states_all_its_rows_when_it_is_skipped(
    new_home: Callable[[], Home],
) -> None:
    home = new_home().pipeline(APPENDS)
    home.data("raw.jsonl", {"id": "a", "n": 1}, {"id": "b", "n": -2})
    home.ok("run", "clean")
    home.data("raw.jsonl", {"id": "c", "n": 3}, {"id": "d", "n": -4})
    last = home.ok("run", "clean")["run_id"]
    assert skipped_rows(home) == len(home.rows("clean")) == 2
    assert told(replay(home, last, lines='{"id": "d", "n": 4}\n')) == (1, 1, 0)
    assert skipped_rows(home) == len(home.rows("clean")) == 3
    # ---- a run that appends nothing rejects records too ----
    home.data("raw.jsonl", {"id": "c", "n": 3}, {"id": "e", "n": -5})
    empty = home.ok("run", "clean")["run_id"]
    assert told(replay(home, empty, lines='{"id": "e", "n": 5}\n')) == (1, 1, 0)
    assert len(home.rows("clean")) == 4
