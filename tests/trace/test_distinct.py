"""Rows of a trace have distinct keys: compared once, and then known by the door."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tallyman.engine.source.repeated import LIMIT
from tests.engine.conftest import Ran, Workshop

PIPELINE = """
import tallyman as tm

SCHEMA = "id string, v int"
rows = tm.source("rows", "data/rows.jsonl", schema=SCHEMA, key="id")
repeated = tm.source("repeated", "data/repeated.jsonl", schema=SCHEMA, key="id")

@tm.asset
def doubled(rows):
    return rows.update({"v": "v * 2"}, where="v > 1").delete("v = 6")

@tm.asset(trace="off")
def untraced(rows):
    return rows.update({"v": "v * 2"}, where="v > 1").delete("v = 6")

@tm.asset
def same_key(repeated):
    return repeated.update({"v": "v * 2"}, where="v > 1")
"""
ROWS = [{"id": f"r{n}", "v": n} for n in range(1, 5)]


def duplicates(ran: Ran, asset: str) -> Any:
    return ran[asset].ledger["input_accounting"]["duplicate_keys"]


@pytest.fixture
def counting_two(spark: SparkSession) -> Iterator[None]:
    """Doors count the keys of two records at most. All tests of the process share the session."""
    spark.conf.set(LIMIT, "2")
    yield
    spark.conf.unset(LIMIT)


@pytest.mark.usefixtures("counting_two")
def test_keys_that_the_door_did_not_count_are_compared_once(
    workshop: Callable[..., Workshop],
) -> None:
    shop = workshop().pipeline(PIPELINE).lines("rows.jsonl", ROWS)
    shop.lines("repeated.jsonl", [*ROWS, ROWS[1]])
    assert duplicates(shop.run("untraced"), "untraced") is None  # too many for the door
    ran = shop.run("doubled", "same_key")
    assert ran.asset("doubled").status == "success", ran.asset("doubled").error
    assert duplicates(ran, "doubled") == 0
    error = ran.asset("same_key").error
    assert error is not None
    assert error["code"] == "rows_not_distinct"
    assert "r2" in str(error["message"])
    assert duplicates(shop.run("untraced", force=True), "untraced") == 0  # by its bytes
