"""Warnings are counted once, whatever the plan around them is."""

from collections.abc import Callable

import pytest

from tests.engine.conftest import Ran, Workshop

PIPELINE = """
tm.source("left", "data/left.jsonl", schema="id string, n int, l array<int>", key="id")
tm.source("right", "data/right.jsonl", schema="id string, m int", key="id")
WARN = dict(severity="warn")

@tm.asset(key="id")
def joined(left, right):
    return left.join(right, "id").expect("odd", "n % 2 = 1", **WARN)

@tm.asset(key="id", evidence="digest")
def before_a_group(left):
    return left.expect("odd", "n % 2 = 1", **WARN).groupBy("id").agg(n="sum(n)")

@tm.asset
def twice(left):
    some = left.select("id", "n")
    return some.expect("odd", "n % 2 = 1", **WARN).union(some.expect("odd", "n % 2 = 1", **WARN))

@tm.asset
def children(left):
    return left.explode("l", "one").expect("large", "one > 1", **WARN)

@tm.asset(key="id")
def changed(left):
    return left.select("id", "n").expect("odd", "n % 2 = 1", **WARN).update({"n": "n + 1"})
"""


@pytest.fixture(scope="module")
def ran(workshop: Callable[[], Workshop]) -> Ran:
    made = workshop().pipeline(PIPELINE)
    made.lines("left.jsonl", [{"id": str(n), "n": n, "l": [1, 2]} for n in range(10)])
    made.lines("right.jsonl", [{"id": str(n), "m": n} for n in range(10)])
    return made.run()


@pytest.mark.parametrize(
    ("asset", "counts"),
    [
        ("joined", [5]),
        ("before_a_group", [5]),
        ("twice", [5, 5]),
        ("children", [10]),
        ("changed", [5]),
    ],
)
def test_each_row_that_breaks_the_rule_counts_once(ran: Ran, asset: str, counts: list[int]) -> None:
    found = ran.asset(asset)
    assert found.status.good, found.error
    assert [warning.count for warning in found.warnings] == counts
    assert [warning.of_records for warning in found.warnings] == [asset != "children"] * len(counts)
