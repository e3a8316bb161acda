"""How often a run asks Spark: one pass over the rows, the door, and nothing for what is small."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from py4j.java_gateway import GatewayClient

from tests.engine.conftest import Workshop
from tests.world.scale import some

PIPELINE = """
ANY = dict(thresholds=dict(absolute=0, percentage=1))
tm.source("lines", "data/lines.json", key="id", schema="id string, grp string, n int")
tm.source("columns", "data/columns", "parquet", key="id")

def checked(rows):
    return rows.filter("n > 2", name="low").expect("small", "n < 90")

@tm.asset(**ANY, key="id")
def rows(columns):
    return checked(columns)

@tm.asset(**ANY, key="grp", evidence="digest")
def digests(columns):
    return checked(columns).groupBy("grp").agg(total="sum(n)")

@tm.asset(**ANY, key="grp", evidence="keys")
def keys(columns):
    return checked(columns).groupBy("grp").agg(total="sum(n)")

@tm.asset(**ANY, key="grp", evidence="keys")
def from_lines(lines):
    return checked(lines).groupBy("grp").agg(total="sum(n)")
"""
JOBS = {
    "rows": 1,  # the pass
    "digests": 1,
    "keys": 2,  # the pass, and the aggregate of what it wrote
    "from_lines": 3,  # and the door
}
CALLS = {"rows": 260, "digests": 350, "keys": 405, "from_lines": 475}
"""Calls into the JVM that a run may make, most of them to build the pass. Columns are written as
SQL: built of functions they took twice as many."""
FORGET = "m\n"
"""A call that only lets the JVM forget an object, whenever Python collects garbage."""


@pytest.fixture(scope="module")
def shop(workshop: Callable[..., Workshop]) -> Workshop:
    shop = workshop(interpreted=True).pipeline(PIPELINE)
    records = [{"id": f"k{n}", "grp": "ab"[n % 2], "n": n} for n in range(100)]
    shop.lines("lines.json", records)
    return shop.parquet("columns", shop.open().spark.createDataFrame(records))


@pytest.mark.parametrize("asset", some(list(JOBS), 2))
def test_a_small_run_asks_spark_only_for_what_it_must(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, asset: str
) -> None:
    shop.run(asset)  # definitions are checked before their first run
    shutil.rmtree(shop.home / ".tallyman" / "doors")
    assert _jobs(shop, monkeypatch, asset) == JOBS[asset]
    recalled = JOBS[asset] - (asset == "from_lines")
    assert _jobs(shop, monkeypatch, asset) == recalled


def _jobs(shop: Workshop, monkeypatch: pytest.MonkeyPatch, asset: str) -> int:
    tracker = shop.open().spark.sparkContext.statusTracker()
    before, calls = set(tracker.getJobIdsForGroup(None)), 0
    send = GatewayClient.send_command

    def counted(client: GatewayClient, command: str, *given: object, **named: object) -> object:
        nonlocal calls
        calls += not command.startswith(FORGET)
        return send(client, command, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(GatewayClient, "send_command", counted)
        made = shop.run(asset, force=True).asset(asset)
    assert (made.status, made.fates["FILTERED"], made.fates["ERROR"]) == ("success", 3, 10)
    assert 0 < calls < CALLS[asset]
    return len(set(tracker.getJobIdsForGroup(None)) - before)
