"""From a record forward: the rows it is in and what was made of them, or where it ended."""

from __future__ import annotations

import pytest

from tests.walk.conftest import OrdersHome


def test_a_record_is_followed_through_every_asset(shop: OrdersHome) -> None:
    found = shop.where("orders", "id=o3")
    assert (found["count"], found["records"][0]["line"]) == (1, 3)
    by_asset = {one["asset"]: one for one in found["became"]}
    assert set(by_asset) == {"clean", "by_day"}
    clean = by_asset["clean"]
    assert (clean["dataset"], clean["version"], clean["rows"]) == ("clean", 2, 1)
    further = {one["asset"]: one for one in clean["then"]}
    assert set(further) == {"lines", "by_city"}
    lines = further["lines"]
    assert [(s["step"], s["did"], s["count"]) for s in lines["steps"]] == [
        ("10_explode", "exploded", 2)
    ]
    assert (lines["version"], lines["rows"]) == (2, 2)
    [per_item] = lines["then"]
    assert [s["step"] for s in per_item["steps"]] == ["10_groupBy"]
    assert (per_item["version"], per_item["run"]) == (3, shop.runs[2])
    assert per_item["shown"] == [{"item": "ink", "n": 3, "twice": 6}]
    assert (further["by_city"]["replayed"], further["by_city"]["rows"]) == (True, 1)
    assert further["by_city"]["shown"][0]["city"] == "Oslo"
    day = by_asset["by_day"]
    assert (day["partition"], day["rows"], day["other_partitions"]) == ("d:2026-01-02", 1, 1)


@pytest.mark.parametrize(
    ("record", "rule", "step", "actual"),
    [
        ("o5", "clean.known_customer", "known_customer", "zed"),
        ("o7", "clean.positive", "10_expect", "-1.00"),
    ],
)
def test_a_rejected_record_names_rule_step_and_value(
    shop: OrdersHome, record: str, rule: str, step: str, actual: str
) -> None:
    clean = next(o for o in shop.where("orders", f"id={record}")["became"] if o["asset"] == "clean")
    [letter] = clean["rejections"]
    assert (letter["rule"], letter["step"], letter["actual"]) == (rule, step, actual)
    assert (clean["rows"], "then" in clean) == (0, False)


def test_records_that_are_left_out_name_the_step_and_the_reason(shop: OrdersHome) -> None:
    became = shop.where("orders", "id=o6")["became"]
    [ended] = next(o for o in became if o["asset"] == "clean")["filtered"]
    assert (ended["step"], ended["reason"]) == ("20_filter", "test orders")
    # o4 has no items: it is in clean, and ends where its items would have become rows.
    clean = next(o for o in shop.where("orders", "id=o4")["became"] if o["asset"] == "clean")
    lines = next(o for o in clean["then"] if o["asset"] == "lines")
    assert [e["step"] for e in lines["filtered"]] == ["10_explode.empty"]


def test_a_record_is_found_by_its_place(shop: OrdersHome) -> None:
    """The second file begins with a blank line."""
    found = shop.where("orders", "@b.jsonl#5")
    assert [record["key"] for record in found["records"]] == ["o7"]
    clean = next(o for o in found["became"] if o["asset"] == "clean")
    assert [letter["source_key"] for letter in clean["rejections"]] == ["o7"]


def test_a_reference_is_joined_by_the_records_that_reached_the_join(shop: OrdersHome) -> None:
    """Of the three orders of ann one was rejected before the join."""
    [clean] = shop.where("customers", "code=ann")["became"]
    assert (clean["asset"], clean["role"], clean["joined_by"]) == ("clean", "reference", 2)


def test_in_an_older_run_it_is_the_older_version(shop: OrdersHome) -> None:
    found = shop.where("orders", "id=o1", "--run", shop.runs[0])
    [clean] = found["became"]
    assert (clean["run"], clean["version"]) == (shop.runs[0], 1)
    assert {(one["asset"], one["version"]) for one in clean["then"]} == {
        ("lines", 1),
        ("by_city", 1),
    }


def test_what_is_not_there_is_an_error_with_the_nearest_name(shop: OrdersHome) -> None:
    for words, message in (
        (("order", "id=o1"), "Did you mean 'orders'?"),
        (("orders", "idd=o1"), "Did you mean 'id'?"),
        (("orders", "id=o99"), "record in orders"),
    ):
        reply = shop.tallyman("where", *words)
        assert reply.code == 2, str(reply)
        assert message in reply.json["error"]["message"]
