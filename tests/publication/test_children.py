"""Children and groups that steps make of records: in every tally, and with limits of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallyman.domain.pipeline.threshold import Halt, Thresholds
from tallyman.errors import UsageError
from tests.publication.conftest import ThreeHome

PIPELINE = """\
import tallyman as tm

orders = tm.source("orders", path="data/orders.jsonl", format="json", key="id",
                   schema="id string, lines array<struct<sku: string, n: int>>")
offers = tm.source("offers", path="data/offers.jsonl", format="json", key="offer",
                   schema="offer string, sku string")


@tm.asset
def sold(orders):
    return (
        orders.filter("id <> 'o39'", reason="test").explode("lines", "line", name="lines")
        .select("id", "line.sku", "line.n").expect("some", "n > 0")
    )


@tm.asset(key="sku")
def by_sku(orders):
    return (
        orders.explode("lines", "line", name="lines").select("line.sku")
        .groupBy("sku").agg(lines="count(*)", name="skus").expect("enough", "lines > 1")
    )


@tm.asset(thresholds=dict(children_absolute=9, children_percentage=1))
def offered(orders, offers):
    return (
        orders.withColumn("sku", "lines[0].sku").drop("lines")
        .join(offers, "sku", fanout="expand", unmatched="filter", name="offers")
        .expect("known", "offer <> 'f2'")
    )
"""


def _sku(order: int, line: int) -> str:
    return f"rare{order}" if order < 4 and line == 4 else f"s{(5 * order + line) % 20}"


ORDERS: list[dict[str, object]] = [
    {
        "id": f"o{i:02d}",
        "lines": [{"sku": _sku(i, j), "n": 0 if i < 15 and not j else 1} for j in range(5)],
    }
    for i in range(40)
]
OFFERS = [{"offer": f"f{i}", "sku": "s0" if i < 3 else "s5"} for i in range(5)]
LIMITS = "children_percentage=0.08,groups_percentage=0.2"
SOLD = "39 parents → 195 children = 180 passed + 15 rejected"
BY_SKU = "40 parents → 200 children = 196 aggregated + 4 rejected\n  24 groups = 20 passed + 4 rej"


def _made(assets: Any, name: str) -> list[Any]:
    [found] = [asset for asset in assets if asset["name"] == name]
    return [
        (
            sub["opened_by"],
            sub["unit"],
            sub["units_in"],
            {f: n for f, n in sub["fates"].items() if n},
        )
        for sub in found["sub_ledgers"]
    ]


def test_rejected_children_and_groups_halt_a_run_and_show_wherever_it_is_told(
    home: ThreeHome,
) -> None:
    home.pipeline(PIPELINE).data("orders.jsonl", *ORDERS).data("offers.jsonl", *OFFERS)
    halted = home.tallyman("run")
    assert (halted.code, halted.json["published"]) == (3, {}), str(halted)
    errors = {asset["name"]: asset["error"] for asset in halted.json["assets"]}
    assert {name: (e["reason"], e["rejected"], e["threshold"]) for name, e in errors.items()} == {
        "sold": ("PercentageRate", "15 of 195 children", 0.05),
        "by_sku": ("PercentageRate", "4 of 24 groups", 0.05),
        "offered": ("AbsoluteCount", "10 of 50 children", 9),
    }
    assert (
        "15 of 195 children were rejected (7.7 %); the threshold is 5 %"
        in errors["sold"]["message"]
    )

    done = home.printed("run", "sold", "by_sku", "--thresholds", LIMITS, "--run-id", "good")
    assert done.code == 0, str(done)
    shown = home.printed("show", "good")
    for text in (done.stdout, shown.stdout):
        assert "40 in = 39 exploded + 1 filtered   0 unaccounted   180 rows out" in text
        assert f"\n  {SOLD}\n" in text
        assert f"\n  {BY_SKU}ected\n" in text
    report = home.printed("report", "good").stdout
    assert "195 children = 180 passed + 15 rejected" in report
    assert "0 records, 0 % of all\n            15 children, 7.69 % of all" in report

    told = home.ok("show", "good")
    assert _made(told["assets"], "sold") == [
        ("lines", "child", 195, {"PASSED": 180, "ERROR": 15}),
    ]
    assert _made(told["assets"], "by_sku") == [
        ("lines", "child", 200, {"AGGREGATED": 196, "ERROR": 4}),
        ("skus", "group", 24, {"PASSED": 20, "ERROR": 4}),
    ]
    folder = home.path / told["folder"]
    ledger = json.loads((folder / "ledger.json").read_text())["assets"]
    assert [sub["parents"] for sub in ledger["sold"]["sub_ledgers"]] == [39]
    lines = (folder / "lineage" / "job_events.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["eventType"] == "COMPLETE"]
    facets = [event["run"]["facets"].get("tallyman_ledger", {}) for event in events]
    told_units = [sub["units_in"] for facet in facets for sub in facet.get("sub_ledgers", ())]
    assert sorted(told_units) == [24, 195, 200]


def test_a_limit_of_children_or_groups_is_that_of_records_unless_it_is_given() -> None:
    plain = Thresholds(absolute=10, percentage=0.5)
    for unit in ("record", "child", "group", "row"):
        assert plain.check(11, 1_000, unit) == Halt("AbsoluteCount", 11, 10, 1_000, unit)
        assert plain.check(5, 9, unit) == Halt("PercentageRate", 5, 0.5, 9, unit)
        assert plain.check(5, 10, unit) is None

    own = Thresholds.of("absolute=10,children_absolute=0,children_percentage=1,groups_absolute=2")
    assert own.check(11, 11, "child") is None
    assert own.check(3, 1_000, "group") == Halt("AbsoluteCount", 3, 2, 1_000, "group")
    assert own.check(11, 1_000) == Halt("AbsoluteCount", 11, 10, 1_000)
    assert Thresholds.of(own.to_json()) == own

    for wrong in ({"children_percentage": 1.1}, {"groups_absolute": -1}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            Thresholds.of(wrong)
