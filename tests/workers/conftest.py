from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.workers.bench import Bench
from tests.workers.service import Service
from tests.world.homes import Homes
from tests.world.numbers import PIPELINE as NUMBERS
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
DAY = "2025-01-01"
FOLLOWED = NUMBERS.replace(
    '@tm.asset(key="id", partitioned_by=days)\ndef doubled',
    '@tm.asset(key="id", partitioned_by=days, trigger="event")\ndef doubled',
)


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


@pytest.fixture(scope="module")
def new_bench(homes: Homes) -> Iterator[Callable[[], Bench]]:
    made: list[Bench] = []

    def make() -> Bench:
        """A project with one day, of which two assets are made and one follows the other."""
        home = homes.make(NumbersHome, "bench").pipeline(FOLLOWED).numbers(DAY, 1, 2, 3)
        home.ok("run", "+doubled", "--partition", DAY)
        made.append(Bench(home))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


@pytest.fixture(scope="module")
def kept_bench(new_bench: Callable[[], Bench]) -> Bench:
    return new_bench()


@pytest.fixture
def bench(kept_bench: Bench) -> Iterator[Bench]:
    """A project that goes on through a file; each test makes its own tasks, and none is left."""
    yield kept_bench
    kept_bench.home.sql("DELETE FROM tasks")
    kept_bench.tasks.close_runs()
