"""`why` follows a join to a reference with steps of its own, without Spark where columns show what
matched, and says so where they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.walk.conftest import OrdersHome
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


def test_a_run_that_kept_digests_says_why_spark_starts(shop: OrdersHome) -> None:
    reply = shop.tallyman("why", "by_city", "city=Rome")
    assert reply.code == 0
    assert "stored digests instead of keys" in reply.stderr


def test_plans_with_columns_need_no_spark_to_be_followed(tmp_path: Path) -> None:
    """With Spark in the process, where a Column needs a session; in processes of their own."""
    (tmp_path / "tallyman.yaml").write_text("name: local\n")
    home = written(Home(tmp_path))
    ran = home.installed("run")
    out, err = ran.communicate(timeout=200)
    assert ran.returncode == 0, out + err
    asked = home.installed("why", "plain", "id=1", "--json")
    out, err = asked.communicate(timeout=100)
    assert (asked.returncode, err) == (0, "")
    [record] = joined(json.loads(out))
    assert record["values"] == PEOPLE[0]
    asked = home.installed("why", "lit", "id=1", "--json")
    out, err = asked.communicate(timeout=100)
    assert (asked.returncode, err) == (0, "")
    assert joined(json.loads(out))[0]["values"] == PEOPLE[0]
