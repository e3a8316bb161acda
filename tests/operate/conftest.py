"""A project in a database of its own, with tasks for the kinds of work that tests have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.operate.shop import Shop


@pytest.fixture(scope="module")
def address(empty_database: Callable[[], str]) -> str:
    return empty_database()


@pytest.fixture
def shop(address: str, tmp_path: Path) -> Iterator[Shop]:
    made = Shop.make(tmp_path / "shop", address)
    yield made
    made.close()
