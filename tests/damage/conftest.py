"""A project whose two runs and versions have files of every kind there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tallyman.project import Project
from tests.world.home import Home
from tests.world.homes import INTERPRETED, Homes

PIPELINE = """\
import tallyman as tm

orders = tm.source(
    "orders", path="data/orders.jsonl", format="json", key="id",
    schema="id string, customer string, items array<string>, amount decimal(10,2)",
)
fees = tm.table("fees", schema="customer string, fee decimal(10,2)", key="customer")


@tm.asset(key="id")
def clean(orders, fees):
    return (
        orders.expect("positive", "amount > 0")
        .filter("customer <> 'test'", reason="test orders")
        .join(fees, "customer", how="left", unmatched="keep", name="fee")
    )


@tm.asset(key=["id", "item"])
def lines(clean):
    return clean.explode("items", "item").drop("items")


@tm.asset(key="item")
def per_item(lines):
    return lines.groupBy("item").agg(n="count(*)")


@tm.asset(key="id")
def edited(orders):
    return (
        orders.drop("items").update({"amount": "amount * 2"}, where="customer = 'ann'")
        .delete("customer = 'test'").output("exports/edited.csv")
        .output("exports/rows.parquet", register_as="edited_rows")
    )
"""
FIRST = [
    {"id": "o1", "customer": "ann", "items": ["pen", "ink"], "amount": 10.50},
    {"id": "o2", "customer": "ben", "items": ["pen"], "amount": 20.00},
    {"id": "o3", "customer": "test", "items": ["ink"], "amount": 5.00},
    {"id": "o4", "customer": "cid", "items": ["ink"], "amount": -5.00},
    {"id": "o5", "customer": "cid", "items": "none", "amount": 7.00},
]
SECOND = [
    *FIRST,
    {"id": "o6", "customer": "ann", "items": ["cap", "ink"], "amount": 1.00},
    {"id": "o7", "customer": "dan", "items": ["cap"], "amount": -1.00},
]


def fee(customer: str, amount: str) -> str:
    row = {"customer": customer, "fee": amount}
    return json.dumps({"statements": [{"insert": {"into": "fees", "rows": [row]}}]})


@dataclass
class StoredHome(Home):
    def orders(self, rows: list[dict[str, object]]) -> StoredHome:
        return self.data("orders.jsonl", *rows)

    def mutated(self, customer: str, amount: str) -> StoredHome:
        (self.path / "fee.json").write_text(fee(customer, amount))
        self.ok("mutate", "fee.json")
        return self


@pytest.fixture(scope="session")
def shop(session_homes: Homes) -> StoredHome:
    """Made through the command line: two runs, two versions of every dataset, two of a table."""
    settings = f"thresholds: {{percentage: 1.0}}\n{INTERPRETED}"
    made = session_homes.make(StoredHome, "damage", settings)
    made.pipeline(PIPELINE)
    made.orders(FIRST).mutated("ann", "1.50").ok("run", "--run-id", "first")
    made.orders(SECOND).mutated("ben", "2.50").ok("run", "--run-id", "second")
    return made


@pytest.fixture(autouse=True)
def _own_mode(own_mode: None) -> None:
    """The project stays open from test to test."""


@pytest.fixture(scope="module")
def project(shop: StoredHome) -> Iterator[Project]:
    with Project.open(shop.path) as opened:
        yield opened
