"""What an asset reads is the version that readers see: every fragment of it, once."""

from __future__ import annotations

import json

import pytest

from tests.world.home import Home
from tests.world.homes import Homes

ONE, TWO = "2025-01-01", "2025-01-02"
PIPELINE = """\
import tallyman as tm

days = tm.daily("day", start="2025-01-01")
raw = tm.source("raw", path="data/{partition}/raw.jsonl", format="json", key="id",
                schema="id string, n int, day date")


@tm.asset(key="id", partitioned_by=days, thresholds="absolute=0,percentage=1")
def good(raw):
    return raw.expect("positive", "n > 0")


@tm.asset(key="day")
def per_day(good):
    return good.groupBy("day").agg(n="count(*)")


@tm.asset(key="id", partitioned_by=days, update_strategy="append", unique_key="id")
def plog(raw):
    return raw


@tm.asset(key="day")
def per_log(plog):
    return plog.groupBy("day").agg(n="count(*)")
"""
BOTH = ("--from", ONE, "--to", TWO)


@pytest.fixture
def home(homes: Homes) -> Home:
    return homes.make(Home, "between").pipeline(PIPELINE)


def day(home: Home, of: str, **records: int) -> None:
    home.data(f"{of}/raw.jsonl", *({"id": k, "n": n, "day": of} for k, n in records.items()))


def counts(home: Home, name: str) -> list[tuple[str, object]]:
    return [(str(row[0]), row[1]) for row in home.rows(name)]


def test_a_reader_counts_the_replayed_records_of_a_partition(home: Home) -> None:
    day(home, ONE, a=1, b=-1)
    day(home, TWO, c=3)
    first = home.ok("backfill", "good", *BOTH)["run_id"]
    home.path.joinpath("fix.jsonl").write_text(json.dumps({"id": "b", "n": 2, "day": ONE}) + "\n")
    home.ok("rejections", "replay", first, "--with", "fix.jsonl")
    assert [row[0] for row in home.rows("good")] == ["a", "b", "c"]

    home.ok("run", "per_day", "--run-id", "read")
    assert counts(home, "per_day") == [(ONE, 2), (TWO, 1)]
    assert home.ok("verify", "read", "--exact")["verified"]
    assert home.ok("reproduce", "read")["verdict"] == "REPRODUCED"


def test_a_reader_counts_every_append_to_a_partition(home: Home) -> None:
    day(home, ONE, a=1)
    home.ok("run", "plog", "-p", ONE)
    day(home, ONE, a=1, b=2)
    home.ok("run", "plog", "-p", ONE)
    home.ok("run", "per_log")
    assert counts(home, "per_log") == [(ONE, 2)]


def test_a_run_that_appends_nothing_takes_nothing_from_its_reader(home: Home) -> None:
    day(home, ONE, a=1, b=2)
    home.ok("run", "plog", "per_log", "-p", ONE)
    day(home, ONE, b=2, a=1)
    home.ok("run", "plog", "per_log", "-p", ONE)
    assert counts(home, "per_log") == [(ONE, 2)]


CHAIN = """\
import tallyman as tm

raw = tm.source("raw", path="data/raw.jsonl", format="json", key="id", schema="id string, n int")


@tm.asset(key="id")
def low(raw):
    return raw.filter("n < 100")


@tm.asset(key="id")
def high(low):
    return low.withColumn("more", "n + 1")
"""


def test_cleanup_keeps_what_a_current_result_was_made_from(home: Home) -> None:
    home.pipeline(CHAIN).data("raw.jsonl", {"id": "a", "n": 1})
    home.ok("run")
    home.edit("n < 100", "n < 200")  # the same rows: low v1 stays, and high reads the new ones
    home.edit("n + 1", "n + 2")
    assert home.ok("run")["published"] == {"high": 2}
    assert home.ok("cleanup", "--older-than", "0s", "--confirm")
    assert home.ok("verify", "latest", "--exact")["verified"]
    why = home.tallyman("why", "high", "id=a").stdout
    assert ("purged" in why, "raw.jsonl" in why) == (False, True)


SPLIT = """\
import tallyman as tm

raw = tm.source("raw", path="data/raw.jsonl", format="json", key="id", schema="id string, n int")


@tm.asset(key="id", split={"small": "n < 10", "large": tm.otherwise},
          publish_rejections="refused", thresholds="absolute=0,percentage=1")
def clean(raw):
    return raw.expect("positive", "n > 0")
"""


@pytest.mark.parametrize("name", ["clean", "refused"])
def test_a_rollback_of_one_output_moves_all_outputs_of_its_asset(home: Home, name: str) -> None:
    home.pipeline(SPLIT).data("raw.jsonl", {"id": "a", "n": 1}, {"id": "b", "n": -1})
    home.ok("run")
    before = {one: home.rows(one) for one in home.heads()}
    home.data("raw.jsonl", {"id": "a", "n": 11}, {"id": "b", "n": 2}, {"id": "c", "n": -3})
    home.ok("run")
    after = {one: home.rows(one) for one in home.heads()}

    home.ok("rollback", name, "--to", "1")
    assert home.heads() == dict.fromkeys(["clean", "small", "large", "refused"], 3)
    assert {one: home.rows(one) for one in home.heads()} == before
    home.ok("run")
    assert {one: home.rows(one) for one in home.heads()} == after
