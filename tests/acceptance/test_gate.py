"""Rows that appear or vanish behind the engine's back are found before anything is published."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.planting import BUG
from tests.world.home import Home

PIPELINE = f"""
import tallyman as tm

orders = tm.source("orders", path="data/orders.parquet", format="parquet", key="id")


@tm.asset(key="id")
def doubled(orders):
    return orders.select("id", "amount", name="{BUG}")


@tm.asset(key="id")
def reads_doubled(doubled):
    return doubled.filter("id IS NOT NULL")
"""


def test_a_run_whose_keys_do_not_balance_fails_and_publishes_nothing(
    tmp_path: Path, spark_server: str, empty_database: Callable[[], str]
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "pipelines").mkdir()
    settings = f"name: broken\ndatabase: {empty_database()}\nmaster: {spark_server}\n"
    (tmp_path / "tallyman.yaml").write_text(settings)
    (tmp_path / "pipelines" / "broken.py").write_text(PIPELINE)
    orders = pa.table({"id": [f"o-{n:03d}" for n in range(150)], "amount": list(range(150))})
    pq.write_table(orders, tmp_path / "data" / "orders.parquet")

    reply = Home(tmp_path).forked("run", "--json")  # the bug stays in its process

    assert reply.code == 1, str(reply)
    assert reply.json["status"] == "failed"
    doubled, reader = reply.json["assets"]
    assert doubled["error"]["reason"] == "ACCOUNTING_INVARIANT_VIOLATED"
    assert (doubled["error"]["missing"], doubled["error"]["duplicate"]) == (0, 150)
    assert reader["status"] == "pending"
    folder = tmp_path / reply.json["folder"]
    verdict = json.loads((folder / "doubled" / "ledger.json").read_text())["verification"]
    assert verdict["accounting_balanced"] is False
    assert verdict["duplicate"] == 150
    assert len(verdict["samples"]["duplicate"]) == 100
    assert "o-000" in (folder / "doubled" / "ACCOUNTING_FAILURE.txt").read_text()
    assert not (folder / "doubled" / "output").exists()
    assert json.loads((folder / "ledger.json").read_text())["balanced"] is False
