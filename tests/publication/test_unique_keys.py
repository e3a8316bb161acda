"""The key of an asset is unique, or nothing is published; unique=False allows it to repeat."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import tallyman as tm
from tallyman.domain.definition.distinct import distinguished_by
from tallyman.domain.definition.frame import Frame
from tallyman.errors import UsageError
from tests.publication.conftest import ThreeHome

PIPELINE = """\
import tallyman as tm

raw = tm.source("raw", path="data/raw.jsonl", format="json", key="line",
                schema="line string, id string, day string, n int")


@tm.asset(key="id")
def repeating(raw):
    return raw.filter("n < 100", reason="large")


@tm.asset(key="line")
def by_line(raw):
    return raw.withColumn("n", "n + 1")


@tm.asset(key=["id", "day"])
def in_place(raw):
    return raw.update({"day": "'1'"}, where="n = 3").aggregate(["day"], n="sum(n)")


@tm.asset(key="id", unique=False)
def allowed(raw):
    return raw


@tm.asset(key="n")
def two_nulls(raw):
    return raw.select("line", "if(n < 3, NULL, n) AS n")


@tm.asset(key="id")
def one_of_each(raw):
    return raw.dropDuplicates(["id"])


@tm.asset(key=["id", "day"])
def grouped(raw):
    return raw.groupBy("id").agg(day="max(day)", total="sum(n)").filter("total > 0")


@tm.asset(key="id", partitioned_by=tm.partitions("day", ["1", "2"]))
def by_day(raw):
    return raw.filter("n <> 3", reason="test")
"""
GOOD = ("allowed", "by_line", "one_of_each", "grouped")
ROWS: list[tuple[str | None, str, int]] = [
    ("a", "1", 1),
    ("b", "1", 2),
    ("a", "2", 3),
    ("c", "2", 4),
    (None, "2", 5),
    ("b", "1", 500),
]


def _data(home: ThreeHome, rows: list[tuple[str | None, str, int]]) -> ThreeHome:
    listed = [{"line": f"{n}.", "id": i, "day": d, "n": v} for n, (i, d, v) in enumerate(rows)]
    return home.data("raw.jsonl", *listed)


def _failures(told: Any) -> dict[str, Any]:
    names = {
        a["name"] + (f"[{a['partition']}]" if a["partition"] else ""): a for a in told["assets"]
    }
    return {name: asset["error"] for name, asset in names.items() if asset.get("error")}


def test_a_key_that_repeats_fails_its_asset_unless_it_may(home: ThreeHome) -> None:
    _data(home.pipeline(PIPELINE), ROWS)
    failed = home.tallyman("run", "--partition", "1")
    assert (failed.code, failed.json["published"]) == (1, {}), str(failed)
    errors = _failures(failed.json)
    assert {error["code"] for error in errors.values()} == {"keys_repeat"}
    assert {name: (e["repeated_keys"], e["rows"], e["samples"]) for name, e in errors.items()} == {
        "repeating": (1, 2, ['{"id":"a"}']),
        # The third row moved to day 1; of day 2 a row without an id is added to the one there is.
        "in_place": (
            3,
            6,
            ['{"id":null,"day":"2"}', '{"id":"a","day":"1"}', '{"id":"b","day":"1"}'],
        ),
        "two_nulls": (1, 2, ['{"n":null}']),
        "by_day[1]": (1, 2, ['{"id":"b"}']),
    }
    message = errors["repeating"]["message"]
    assert message.startswith("repeating: 2 rows share 1 value(s) of the key (id), for example")
    assert "unique=False" in errors["repeating"]["hint"]
    assert set(home.heads().values()) == {0}

    good = home.printed("run", *GOOD, "--force")
    assert good.code == 0, str(good)
    assert "warning: allowed: key column id is NULL in 1 row(s)" in good.stderr

    # Without the rows that repeat nothing is in the way; the same id in two days is none of them.
    _data(home, [row for row in ROWS if row[2] not in (1, 500)] + [("c", "1", 6)])
    home.ok("run", "by_day", "--partition", "2")
    again = home.tallyman("run", "repeating", "by_day", "--partition", "1")
    assert set(_failures(again.json)) == {"repeating"}, str(again)
    assert _failures(again.json)["repeating"]["samples"] == ['{"id":"c"}']


def log(raw: Frame) -> Frame:
    return raw


def test_appended_rows_need_their_unique_key_within_the_key() -> None:
    appended = partial(tm.asset, update_strategy="append", unique_key="id")
    with pytest.raises(
        UsageError, match=r"its key \(line\) does not contain all of its unique_key \(id\)"
    ):
        appended(log, key="line")
    assert not appended(log, key="line", unique=False).unique
    assert appended(log, key=["id", "day"]).unique


RAW, OTHER = Frame("raw"), Frame("other")
GROUPS = RAW.groupBy("a", "B").agg(n="count(*)")


@pytest.mark.parametrize(
    ("plan", "columns"),
    [
        (RAW, None),
        (RAW.filter("a > 1"), None),
        (GROUPS, {"a", "b"}),
        (RAW.groupBy().agg(n="count(*)"), set()),
        (GROUPS.filter("n > 1").expect("e", "a > 1").drop("n"), {"a", "b"}),
        (GROUPS.withColumn("m", "n + 1").select("*").select("b", "`a`", "m"), {"a", "b"}),
        (GROUPS.withColumn("A", "1"), None),
        (GROUPS.select("a", "n"), None),
        (GROUPS.select("a", "upper(b) AS b"), None),
        (GROUPS.drop("b"), None),
        (GROUPS.withColumnRenamed("a", "x"), {"x", "b"}),
        (GROUPS.withColumnRenamed("n", "m"), {"a", "b"}),
        (GROUPS.join(OTHER, "a"), {"a", "b"}),
        (GROUPS.join(OTHER, "a", fanout="expand"), None),
        (GROUPS.union(GROUPS), None),
        (GROUPS.withColumn("xs", "array(1, 2)").explode("xs", "x"), None),
        (GROUPS.explode("n", "x").groupBy("x").agg(m="count(*)"), {"x"}),
        (RAW.dropDuplicates(["a"]).filter("a > 1"), {"a"}),
        (RAW.dropDuplicates(), None),
        (GROUPS.dropDuplicates(), {"a", "b"}),
        (GROUPS.update({"n": "1"}).delete("a = 1").output("o"), {"a", "b"}),
        (GROUPS.update({"b": "1"}), None),
        (GROUPS.aggregate(["a"], n="count(*)"), None),
        (GROUPS.append(OTHER), None),
    ],
)
def test_steps_alone_tell_which_columns_tell_rows_apart(
    plan: Frame, columns: set[str] | None
) -> None:
    assert distinguished_by(plan) == columns
