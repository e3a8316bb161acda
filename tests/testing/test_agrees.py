"""A test sees what a run would do: the same fates, rejections and rows on the same data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tallyman.testing import TallyKit
from tests.engine.conftest import Workshop, new_database, workshop

__all__ = ["new_database", "workshop"]

PIPELINE = """
tm.source("visits", "data/visits.jsonl", key="id", schema="id int, page string not null, ms int")

@tm.asset(key="id", thresholds={"percentage": 1, "absolute": 0, "window": 0})
def fast(visits):
    return visits.expect("known", "page <> '?'").filter("ms < 1000", reason="slow")

@tm.asset(key="page", thresholds={"percentage": 1, "absolute": 0})
def pages(fast):
    return fast.groupBy("page").agg(visits="count(*)", ms="sum(ms)").expect("many", "visits > 1")
"""
VISITS: list[Any] = [
    {"id": 1, "page": "/", "ms": 10},
    {"id": 2, "page": "/", "ms": 20},
    {"id": 3, "page": "/a", "ms": 30},
    {"id": 4, "page": "?", "ms": 2000},
    {"id": 5, "page": "/", "ms": 5000},
    {"id": 6, "ms": 5},
    {"id": 7, "page": "/", "ms": "soon"},
    '{"id": 8, "pa',
]

WORDS = {"PASS_THROUGH": "PASSED"}
"""Fates as ledgers store them, where that is another word."""


def test_a_test_and_a_run_agree(workshop: Callable[..., Workshop], tally: TallyKit) -> None:
    shop = workshop(interpreted=True).pipeline(PIPELINE).lines("visits.jsonl", VISITS)
    ran = shop.run()
    made = tally.run_pipeline(shop.home / "pipelines", {"visits": VISITS})
    for name in ("fast", "pages"):
        files = ran[name]
        assert files.balanced
        counts = {WORDS.get(fate, fate): count for fate, count in files.fates.items()}
        assert made[name].fates == counts
        assert made[name].keys == {
            WORDS.get(part["partition_type"], part["partition_type"]): sorted(
                files.keys_of(part).elements()
            )
            for part in files.partitions
            if part["record_count"]
        }
        assert _rejections(made[name].rejections) == sorted(map(_facts, files.rejections))
        assert made[name].rows == sorted(ran.rows(name), key=lambda row: next(iter(row.values())))
    assert made["pages"].fates == {"ERROR": 1, "AGGREGATED": 2}


def _rejections(found: list[Any]) -> list[tuple[str, ...]]:
    names = ("source_key", "error_type", "rule", "expected", "actual", "error_code")
    return sorted(tuple(getattr(one, name) for name in names) for one in found)


def _facts(letter: dict[str, Any]) -> tuple[str, ...]:
    names = ("source_key", "error_type", "morphism_path", "expected", "actual", "error_code")
    return tuple(letter[name] for name in names)


SHARED = """
tm.dataset("customers")

@tm.asset(key="country")
def countries(customers):
    return customers.filter("n > 0", reason="none").groupBy("country").agg(n="sum(n)")
"""


def test_rows_stand_for_a_dataset_of_another_pipeline(
    workshop: Callable[..., Workshop], tally: TallyKit
) -> None:
    shop = workshop(interpreted=True).pipeline(SHARED)
    given = [{"country": "NL", "n": 2}, {"country": "NL", "n": 3}, {"country": "BE", "n": 0}]
    made = tally.run_pipeline(shop.home / "pipelines", {"customers": given})
    assert made["countries"].fates == {"FILTERED": 1, "AGGREGATED": 2}
    assert made["countries"].rows == [{"country": "NL", "n": 5}]
