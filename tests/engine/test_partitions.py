"""A partition is made of the rows that belong to it: none is lost between two of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest

from tallyman.errors import DefinitionError, DependencyNotReady, UsageError
from tests.engine.conftest import Workshop

PIPELINE = """
orders = tm.source(
    "orders", path="data/orders.jsonl", format="json", key="id",
    schema="id string, day date, region string, amount int",
)
days = tm.daily("day", start="2025-01-01", end="2025-01-31")
regions = tm.partitions("region", ["north", "so:uth", "a/b"])


@tm.asset(key="id", partitioned_by=days)
def clean(orders):
    return orders.filter("amount > 0", reason="nothing sold")


@tm.asset(key="day", partitioned_by=days)
def per_day(clean):
    return clean.groupBy("day").agg(total="sum(amount)")


@tm.asset(key="id", partitioned_by=regions)
def of_region(orders):
    return orders


@tm.asset
def everything(per_day):
    return per_day.groupBy().agg(total="sum(total)", days="count(*)")


@tm.asset(key="id", partitioned_by=days)
def shifted(orders):
    return orders.withColumn("day", "date_add(day, 1)")
"""
ORDERS = [
    {"id": "1", "day": "2025-01-01", "region": "north", "amount": 10},
    {"id": "2", "day": "2025-01-01", "region": "so:uth", "amount": 0},
    {"id": "3", "day": "2025-01-02", "region": "a/b", "amount": 7},
    {"id": "4", "day": None, "region": "north", "amount": 5},
    {"id": "5", "day": "2025-01-02", "region": "north", "amount": 1},
]


@pytest.fixture(scope="module")
def shop(workshop: Callable[..., Workshop]) -> Workshop:
    return workshop(interpreted=True).pipeline(PIPELINE).lines("orders.jsonl", ORDERS)


def test_records_of_other_partitions_are_filtered_and_those_of_none_rejected(
    shop: Workshop,
) -> None:
    wide = "absolute=0,percentage=1.0"
    ran = shop.run("clean", partition="2025-01-01", thresholds=wide, force=True)
    [made] = ran.result.assets
    assert {fate.value: n for fate, n in made.fates.items() if n} == {
        "PASSED": 1,
        "FILTERED": 3,
        "ERROR": 1,
    }
    files = ran[f"clean/day={date(2025, 1, 1)}"]
    [letter] = files.rejections
    assert (letter["source_key"], letter["context"]["epoch"]) == ("4", "2025-01-01")


def test_every_record_is_in_exactly_one_partition_or_rejected(shop: Workshop) -> None:
    project = shop.open()
    result, counts = project.backfill("of_region", first=None, last=None, jobs=2)
    assert counts == {"succeeded": 3, "failed": 0, "skipped": 0, "not_run": 0}
    assert sorted(row["id"] for row in project.read("of_region").collect()) == list("12345")
    only = project.read("of_region", partition="a/b").collect()
    assert [row["id"] for row in only] == ["3"]
    folders = sorted(p.name for p in (shop.home / result.folder / "of_region").iterdir())
    assert folders == ["region=a%2Fb", "region=north", "region=so%3Auth"]


def test_an_asset_without_partitions_reads_all_of_them(shop: Workshop) -> None:
    wide = {"thresholds": "absolute=0,percentage=1.0"}
    project = shop.open()
    project.run("+per_day", partition=["2025-01-01", "2025-01-02"], **wide)
    assert shop.run("everything", **wide).rows("everything") == [{"total": 18, "days": 2}]
    reached = project.lineage("up", "everything")
    assert [(r.asset, r.partition) for r in reached if r.depth == 1] == [
        ("per_day", "d:2025-01-01"),
        ("per_day", "d:2025-01-02"),
    ]
    below = project.lineage("impact", "clean", partition="2025-01-02")
    assert [(r.asset, r.partition) for r in below] == [
        ("per_day", "d:2025-01-02"),
        ("everything", None),
    ]


def test_rows_that_leave_their_partition_fail_the_asset(shop: Workshop) -> None:
    ran = shop.run("shifted", partition="2025-01-02", thresholds="absolute=0,percentage=1.0")
    [made] = ran.result.assets
    assert made.error is not None
    assert made.error["code"] == "rows_outside_partition"
    assert "2 row(s)" in str(made.error["message"])
    assert ran.result.exit_code == 1
    assert not (shop.home / ran.result.folder / "shifted" / "day=2025-01-02" / "output").exists()


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        ("clean", {}, "choose one with --partition"),
        ("everything", {"partition": "2025-01-01"}, "is partitioned"),
        ("clean", {"partition": "2025-02-30"}, "2025-02-30"),
        ("clean", {"partition": "2026-01-01"}, "2025-01-31"),
        ("of_region", {"partition": "nort"}, "north"),
    ],
)
def test_a_partition_that_cannot_be_is_refused(
    shop: Workshop, words: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        shop.run(words, **options)
    assert message in str(refused.value)


def test_what_an_asset_partitions_by_must_be_there(workshop: Callable[..., Workshop]) -> None:
    broken = (
        workshop(interpreted=True)
        .lines("orders.jsonl", ORDERS)
        .pipeline(PIPELINE.replace('"day", start=', '"dya", start='))
    )
    with pytest.raises(DefinitionError) as refused:
        broken.run("clean", partition="2025-01-01")
    assert "'dya'" in str(refused.value)


def test_an_invalidated_partition_is_not_left_out_without_a_word(
    workshop: Callable[..., Workshop],
) -> None:
    shop = workshop(interpreted=True).pipeline(PIPELINE).lines("orders.jsonl", ORDERS)
    wide = {"thresholds": "absolute=0,percentage=1.0"}
    project = shop.open()
    days = ["2025-01-01", "2025-01-02"]
    project.run("+per_day", partition=days, **wide)
    assert project.invalidate("per_day", partition="2025-01-02") == 1
    assert project.invalidate("per_day", partition="2025-01-02") == 0
    with pytest.raises(DependencyNotReady) as refused:
        shop.run("everything", **wide)
    assert "per_day[d:2025-01-02]" in str(refused.value)
    again = project.run("per_day", partition=days, **wide)
    assert [made.status.value for made in again.assets] == ["skipped", "success"]
    assert shop.run("everything", **wide).rows("everything") == [{"total": 18, "days": 2}]
    assert project.invalidate("clean", partition="2025-01-01", cascade=True) == 3
