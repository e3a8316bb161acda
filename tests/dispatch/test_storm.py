"""Two servers, some workers, a PostgreSQL, and every kind of accident: all is done once."""

from __future__ import annotations

import os

import pytest

from tests.dispatch.storm import Storm, storm

SEED = int(os.environ.get("TALLYMAN_SEED", "0"))
ACCIDENTS, WORKERS = 60, 4
pytestmark = pytest.mark.large  # tests/dispatch/test_chaos.py is the small form


@pytest.mark.timeout(1800)
def test_after_every_kind_of_accident_everything_is_done_once() -> None:
    with storm(SEED, WORKERS) as one:
        weather(one, ACCIDENTS)
        assert len(set(one.happened)) == 6, "not every kind of accident happened"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", ["event_id_by_chance", "slot_not_released"])
def test_a_planted_bug_of_the_servers_is_found(plant: str) -> None:
    with storm(SEED, 2, plant) as one, pytest.raises(AssertionError):
        weather(one, 12)


def weather(one: Storm, accidents: int) -> None:
    for _ in range(accidents):
        one.accident()
    one.afterwards()
