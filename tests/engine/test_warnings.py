"""Warnings are counted once, whatever the plan around them is, and whatever Spark repeats."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Observation

from tests.engine.conftest import Ran, Workshop
from tests.world.scale import FULL

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

@tm.asset
def one_side(left):
    some = left.select("id", "n")
    return some.expect("odd", "n % 2 = 1", **WARN).union(some)

@tm.asset
def later(left):
    some = left.select("id", "n")
    both = some.expect("odd", "n % 2 = 1", **WARN).union(some)
    return both.expect("none", "n < 0", **WARN)

@tm.asset(key="id")
def of_groups(left):
    return left.groupBy("id").agg(n="sum(n)").expect("none", "n < 0", **WARN)

@tm.asset(key="id")
def changed(left):
    return left.select("id", "n").expect("odd", "n % 2 = 1", **WARN).update({"n": "n + 1"})
"""


def made(workshop: Callable[..., Workshop]) -> Workshop:
    shop = workshop(interpreted=not FULL).pipeline(PIPELINE)
    shop.lines("left.jsonl", [{"id": str(n), "n": n, "l": [1, 2]} for n in range(10)])
    return shop.lines("right.jsonl", [{"id": str(n), "m": n} for n in range(10)])


@pytest.fixture(scope="module")
def repeated(workshop: Callable[..., Workshop]) -> Ran:
    """A run on a Spark that counts in its observations what it did twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Observation, "get", property(_twice(Observation.get)))
        return made(workshop).run()


def _twice(get: Any) -> Callable[[Observation], dict[str, Any]]:
    def counted(observed: Observation) -> dict[str, Any]:
        found = get.fget(observed)
        return {k: 2 * v if isinstance(v, int) else v for k, v in found.items()}

    return counted


@pytest.mark.parametrize(
    ("asset", "counts"),
    [
        ("joined", [5]),
        ("before_a_group", [5]),
        ("twice", [5, 5]),
        ("children", [10]),
        ("changed", [5]),
        ("one_side", [5]),
        ("later", [5, 20]),
        ("of_groups", [10]),
    ],
)
def test_what_spark_repeats_is_not_counted_twice(
    repeated: Ran, asset: str, counts: list[int]
) -> None:
    found = repeated.asset(asset)
    assert found.status.good, found.error
    assert [warning.count for warning in found.warnings] == counts
    assert [warning.of_records for warning in found.warnings] == [
        asset not in ("children", "of_groups")
    ] * len(counts)
