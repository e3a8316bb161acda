"""Targets: what has to be made before each of them."""

import time
from datetime import date, timedelta

from tallyman.domain.definition.frame import Frame
from tallyman.domain.pipeline.partition import daily
from tallyman.domain.pipeline.pipeline import Asset, Pipeline, Source
from tallyman.domain.pipeline.target import Target, dependencies


def _asset(name: str, *inputs: str, by_day: bool = True) -> Asset:
    days = daily("day", "2025-01-01") if by_day else None
    return Asset(name=name, function=lambda *frames: Frame("x"), inputs=inputs, partitioned_by=days)


PIPELINE = Pipeline.of(
    [
        Source(name="raw", path="data", format="json"),
        _asset("numbers", "raw"),
        _asset("doubled", "numbers"),
        _asset("every", "doubled", by_day=False),
        _asset("spread", "every"),
    ]
)


def _targets(asset: str, days: int) -> list[Target]:
    first = date(2025, 1, 1)
    return [Target(asset, f"d:{first + timedelta(days=n)}") for n in range(days)]


def test_a_partition_needs_the_same_one_and_a_whole_asset_needs_all() -> None:
    numbers, doubled = _targets("numbers", 3), _targets("doubled", 3)
    spread = _targets("spread", 2)
    chosen = [*numbers[:2], *doubled, Target("every"), *spread]
    needs = dependencies(PIPELINE, chosen)
    assert [needs[one] for one in numbers[:2]] == [set(), set()]
    assert [needs[one] for one in doubled] == [{numbers[0]}, {numbers[1]}, set()]
    assert needs[Target("every")] == set(doubled)
    assert [needs[one] for one in spread] == [{Target("every")}] * 2


def test_ten_times_the_partitions_take_about_ten_times_as_long() -> None:
    def seconds(days: int) -> float:
        chosen = [*_targets("numbers", days), *_targets("doubled", days)]
        begun = time.process_time()
        dependencies(PIPELINE, chosen)
        return time.process_time() - begun

    few, many = (min(seconds(days) for _ in range(3)) for days in (400, 4_000))
    assert many < 40 * few  # each with each would be a hundred times
