"""Ids of rows: derived from the run and the key, in the way that the run was begun with."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
import xxhash
from pyspark.sql import SparkSession

from tallyman.domain.history.run import RunIdentity
from tallyman.engine.working.changes import Member
from tallyman.engine.working.row_ids import RowIds
from tests.world.home import Home
from tests.world.homes import Homes

STARTED = datetime(2026, 2, 1, tzinfo=UTC)
HIGH = 0x019C167FCC007003
"""The milliseconds of that time, the version of the UUID, and the ordinal of the step."""
KEYS = ("a", "", "o'k\\", "é" * 40, "JE0000000001")
MEMBER = cast("Member", SimpleNamespace(ordinal=3, born=30))
PIPELINE = """
import tallyman as tm

tm.source("orders", "data/orders.jsonl", schema="id string, n int", key="id")

@tm.asset(key="id")
def states(orders):
    return orders.update({"n": "n + 1"}, where="n > 1").output("out/states.json", format="json")
"""


def of_sha256(scope: str, key: str) -> int:
    found = hashlib.sha256(f"{scope}\x1f{key}".encode()).hexdigest()
    return int(found[0], 16) // 4 << 60 | int(found[1:16], 16)


def of_xxhash(scope: str, key: str) -> int:
    seed = xxhash.xxh64_intdigest(scope.encode(), seed=42)
    return xxhash.xxh64_intdigest(key.encode(), seed=seed) & (1 << 62) - 1


@pytest.mark.parametrize(("way", "low"), [(1, of_sha256), (2, of_xxhash)])
def test_an_id_follows_from_the_key(spark: SparkSession, way: int, low: Any) -> None:
    ids = RowIds(RunIdentity("r", "0b0e7d6e", STARTED, way), "it's", "2026-01-01")
    rows = spark.createDataFrame([(key,) for key in KEYS], "k string")
    made = rows.selectExpr("k", f"{ids.low(MEMBER, 'k')} AS low", f"{ids.of(MEMBER, 'k')} AS id")
    found = made.collect()
    assert [row["k"] for row in found] == list(KEYS)
    for row in found:
        expected = low("0b0e7d6e\x1fit's\x1f2026-01-01\x1f30", row["k"])
        assert row["low"] == expected
        assert row["id"] == str(UUID(int=HIGH << 64 | 2 << 62 | expected))


def test_a_run_is_reproduced_with_the_ids_it_was_begun_with(
    homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = homes.make(Home, "ids").pipeline(PIPELINE)
    home.data("orders.jsonl", *({"id": f"o{n}", "n": n} for n in range(4)))
    new = RunIdentity.of
    with monkeypatch.context() as before:
        earlier = classmethod(lambda cls, *a, **more: replace(new(*a, **more), row_ids=1))
        before.setattr(RunIdentity, "of", earlier)
        home.ok("run", "--run-id", "earlier")
    [line, *_] = (home.path / "out" / "states.json").read_text().splitlines()
    [(run, params)] = home.query("SELECT id, params FROM runs")
    assert "row_ids" not in cast("dict[str, Any]", params)
    scope, row = f"{run}\x1fstates\x1f\x1f0", json.loads(line)
    low = UUID(row["_row_id"]).int & (1 << 62) - 1
    assert low == of_sha256(scope, row["id"]) != of_xxhash(scope, row["id"])
    assert home.ok("reproduce", "earlier")["verdict"] == "REPRODUCED"
