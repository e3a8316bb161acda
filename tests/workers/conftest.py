from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.workers.service import Service
from tests.world.homes import Homes
from tests.world.numbers import NumbersHome

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


@tm.asset(key="day", name="sum", partitioned_by=days,
          approval=tm.approval("large total", when="sum(total) > 1000000"))
def total(numbers):
    return numbers.groupBy("day").agg(total="sum(n)")


@tm.asset(key="day", partitioned_by=days)
def report(sum):
    return sum.withColumn("text", "'total ' || total")


@tm.asset(key=["id", "day"])
def every(numbers):
    return numbers.withColumn("twice", "n * 2")
"""
ALL = ("numbers", "sum", "report")


@pytest.fixture(scope="module")
def new_service(homes: Homes) -> Iterator[Callable[[], Service]]:
    made: list[Service] = []

    def make() -> Service:
        made.append(Service(homes.make(NumbersHome, "crew").pipeline(PIPELINE)))
        return made[-1]

    yield make
    for service in made:
        service.stop()


@pytest.fixture(scope="module")
def service(new_service: Callable[[], Service]) -> Service:
    """A service that goes on through a file; each test has a day of its own."""
    started = new_service()
    started.server()
    started.worker()
    return started
