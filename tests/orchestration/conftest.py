from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.world.homes import Homes
from tests.world.numbers import PIPELINE, NumbersHome


@pytest.fixture(scope="module")
def new_home(homes: Homes) -> Callable[[], NumbersHome]:
    return lambda: homes.make(NumbersHome, "scenario").pipeline(PIPELINE)


@pytest.fixture
def home(new_home: Callable[[], NumbersHome]) -> NumbersHome:
    return new_home().numbers("2025-01-01", 1, 2, 3, 4, 5)
