"""`why` follows a join to a reference with steps of its own, without Spark where columns show what
matched, and says so where they do not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm
from pyspark.sql import functions as F

tm.source("orders", "data/orders.jsonl", key="id", schema="id int, who string")
tm.source("people", "data/people.jsonl", key="n", schema="n int, name string, city string")


def once(people):
    return people.select(F.col("name").alias("person"), F.col("city")).dropDuplicates(["person"])


@tm.asset(key="id")
def plain(orders, people):
    return orders.join(once(people), "who = person", unmatched="error", name="known")


@tm.asset(key="id")
def lit(orders, people):
    return plain.function(orders, people).withColumn("x", F.concat_ws("-", "who", F.lit("y")))
"""
PEOPLE = [
    {"n": 1, "name": "ann", "city": "Oslo"},
    {"n": 2, "name": "ben", "city": "Rome"},
    {"n": 3, "name": "ben", "city": "Bonn"},
]


def written(home: Home) -> Home:
    home.data("orders.jsonl", {"id": 1, "who": "ann"}, {"id": 2, "who": "ben"})
    home.data("people.jsonl", *PEOPLE)
    return home.pipeline(PIPELINE)


def joined(found: Any) -> list[Any]:
    [join] = found["hops"][0]["joins"]
    return list(join["origin"]["records"])


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    home = written(homes.make(Home, "references"))
    home.ok("run")
    return home


def test_a_row_that_only_one_record_matches_is_found_by_its_columns(home: Home) -> None:
    reply = home.tallyman("why", "plain", "id=1")
    assert reply.stderr == ""
    [record] = joined(reply.json)
    assert (record["file"], record["line"]) == ("data/people.jsonl", 1)
    assert record["values"] == PEOPLE[0]


def test_of_several_equal_ones_spark_finds_the_one_that_was_kept_and_that_is_said(
    home: Home,
) -> None:
    reply = home.tallyman("why", "plain", "id=2")
    assert reply.stderr.startswith("starting Spark: join known compares computed columns")
    [record] = joined(reply.json)
    assert record["values"]["person"] == "ben"
    assert record["values"]["city"] in ("Rome", "Bonn")


def test_where_counts_records_joined_by_a_reference_with_steps(home: Home) -> None:
    found = home.tallyman("where", "people", "n=1")
    assert found.stderr == ""
    became = {one["asset"]: one for one in found.json["became"]}
    assert became["plain"]["joined_by"] == 1
