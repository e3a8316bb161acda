"""A shop: a chain of assets with a join, an explode and two groupings, run in two versions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.world.home import Home
from tests.world.homes import INTERPRETED, Homes

PIPELINE = """\
import tallyman as tm

orders = tm.source(
    "orders", path="data/orders", format="json", key="id",
    schema="id string, day date, customer string, items array<string>, amount decimal(10,2)",
)
customers = tm.source(
    "customers", path="data/customers.csv", format="csv", key="code",
    schema="code string, city string",
)
fees = tm.table("fees", schema="city string, fee decimal(10,2)", key="city")


@tm.asset(key="id")
def clean(orders, customers):
    return (
        orders.expect("positive", "amount > 0")
        .filter("customer <> 'test'", reason="test orders")
        .join(customers, "customer = code", unmatched="error", name="known_customer")
        .withColumn("net", "amount * 2")
    )


@tm.asset(key=["id", "item"], unique=False)
def lines(clean):
    return clean.explode("items", "item").drop("items")


@tm.asset(key="item")
def per_item(lines):
    return lines.groupBy("item").agg(n="count(*)").withColumn("twice", "n * 2")


@tm.asset(key="city", evidence="digest")
def by_city(clean, fees):
    return (
        clean.groupBy("city").agg(total="sum(net)")
        .join(fees, "city", how="left", unmatched="keep", name="fee")
    )


@tm.asset(key="day", partitioned_by=tm.daily("day", start="2026-01-01"), tags=["daily"])
def by_day(orders):
    return orders.groupBy("day").agg(total="sum(amount)")
"""
CUSTOMERS = "code,city\nann,Oslo\nben,Rome\ncid,Oslo\n"
FIRST = [
    {"id": "o1", "day": "2026-01-01", "customer": "ann", "items": ["pen", "ink"], "amount": 10.50},
    {"id": "o2", "day": "2026-01-01", "customer": "ben", "items": ["pen"], "amount": 20.00},
    {"id": "o3", "day": "2026-01-02", "customer": "cid", "items": ["ink", "ink"], "amount": 5.00},
]
SECOND = [
    {"id": "o4", "day": "2026-01-02", "customer": "ann", "items": [], "amount": 1.00},
    {"id": "o5", "day": "2026-01-02", "customer": "zed", "items": ["pen"], "amount": 1.00},
    {"id": "o6", "day": "2026-01-02", "customer": "test", "items": ["pen"], "amount": 1.00},
    {"id": "o7", "day": "2026-01-02", "customer": "ann", "items": ["pen"], "amount": -1.00},
    {"id": "o8", "day": "2026-01-02", "customer": "ben", "items": ["cap"], "amount": 3.00},
]


def write_orders(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@dataclass
class OrdersHome(Home):
    runs: tuple[str, ...] = ()

    def why(self, *words: str) -> Any:
        return self.ok("why", *words)

    def where(self, *words: str) -> Any:
        return self.ok("where", *words)


@pytest.fixture(scope="session")
def shop(session_homes: Homes) -> OrdersHome:
    """v1 of all has o1 to o3; then a blank line and five orders come in a second file."""
    settings = f"thresholds: {{percentage: 1.0}}\n{INTERPRETED}"
    home = session_homes.make(OrdersHome, "shop", settings, {"TALLYMAN_ACTOR": "ann"})
    path = home.pipeline(PIPELINE).path
    write_orders(path / "data" / "orders" / "a.jsonl", *FIRST)
    (path / "data" / "customers.csv").write_text(CUSTOMERS)
    said = {"insert": {"into": "fees", "rows": [{"city": "Oslo", "fee": "1.50"}]}}
    (path / "fees.json").write_text(json.dumps({"statements": [said]}))
    home.ok("mutate", "fees.json")
    chain = ("clean", "lines", "per_item", "by_city")
    first = home.ok("run", *chain)
    second_file = path / "data" / "orders" / "b.jsonl"
    write_orders(second_file, *SECOND)
    second_file.write_text("\n" + second_file.read_text())
    second = home.ok("run", *chain, "by_day", "--partition", "2026-01-02")
    # What is made anew alone reads versions that were there before.
    third = home.ok("run", "per_item", "by_day", "--force", "--partition", "2026-01-01")
    home.runs = (first["run_id"], second["run_id"], third["run_id"])
    return home
