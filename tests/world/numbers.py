"""The numbers project of the reference scenario: three assets, each partitioned by day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tests.world.home import Home

PIPELINE = """\
import tallyman as tm

raw = tm.source(
    "raw", path="data/{partition}/raw.jsonl", format="json", key="id",
    schema="id string, n int, day date",
)
days = tm.daily("day", start="2025-01-01")


@tm.asset(key="id", partitioned_by=days)
def numbers(raw):
    return raw


@tm.asset(key="id", partitioned_by=days)
def doubled(numbers):
    return numbers.withColumn("n", "n * 2")


@tm.asset(key="day", name="sum", partitioned_by=days)
def total(doubled):
    return doubled.groupBy("day").agg(total="sum(n)")
"""


@dataclass
class NumbersHome(Home):
    def numbers(self, day: str, *values: int) -> Self:
        return self.data(f"{day}/raw.jsonl", *({"id": str(v), "n": v, "day": day} for v in values))
