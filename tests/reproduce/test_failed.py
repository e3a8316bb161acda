"""A run in which a target failed: what it counted is compared, and what it did not is counted."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.planting import BUG
from tests.reproduce.conftest import target, verdicts
from tests.world.numbers import NumbersHome

FAILING = f"""\
import tallyman as tm

orders = tm.source(
    "orders", path="data/orders", format="json", key="id", schema="id string, kind string, n int"
)
exact = tm.source("exact", path="data/exact.parquet", format="parquet", key="id")
ANY = "absolute=0,percentage=1"


@tm.asset(key="id", thresholds=ANY)
def good(orders):
    return orders.select("id", "n")


@tm.asset(key="id")
def unbalanced(exact):
    return exact.select("id", "n", name="{BUG}")


@tm.asset(key="id", thresholds=ANY)
def stopped(orders):
    return orders.select("id", "raise_error('no') AS n")
"""


@pytest.fixture(scope="module")
def home(orders: Callable[..., NumbersHome]) -> NumbersHome:
    made = orders(FAILING)
    rows = pa.table({"id": [f"o-{n:03d}" for n in range(30)], "n": list(range(30))})
    pq.write_table(rows, made.path / "data" / "exact.parquet")
    return made


def test_what_failed_is_made_again_and_compared_as_far_as_it_came(home: NumbersHome) -> None:
    """An account that did not balance, and a target that stopped half way."""
    assert home.tallyman("run", "--run-id", "partly").code == 1
    reply = home.tallyman("reproduce", "partly")
    assert (reply.code, reply.json["verdict"]) == (1, "PARTLY_REPRODUCED")
    assert verdicts(reply.json) == {
        "good": "REPRODUCED",
        "unbalanced": "REPRODUCED",
        "stopped": "NOT_COMPARED",
    }
    assert reply.json["counts"] == {"targets": 3, "reproduced": 2, "not_compared": 1}
    assert target(reply.json, "unbalanced")["result"]["status"] == "failed"
    assert target(reply.json, "stopped")["reasons"][0].startswith("failed then: ")
    [run] = (home.path / "runs").glob("*_partly")
    ledger = run / "unbalanced" / "ledger.json"
    changed = json.loads(ledger.read_text())
    changed["verification"]["duplicate"] += 1
    ledger.write_text(json.dumps(changed))
    reply = home.tallyman("reproduce", "partly")
    assert (reply.code, verdicts(reply.json)["unbalanced"]) == (1, "DIFFERENT")
    assert "verification.duplicate" in target(reply.json, "unbalanced")["reasons"][0]


def test_a_run_in_which_nothing_can_be_compared_is_not_reproducible(home: NumbersHome) -> None:
    assert home.tallyman("run", "stopped", "--run-id", "nothing").code == 1
    reply = home.tallyman("reproduce", "nothing")
    assert (reply.code, reply.json["verdict"]) == (1, "NOT_REPRODUCIBLE")
    assert verdicts(reply.json) == {"stopped": "NOT_COMPARED"}
