"""One database per file, emptied for each test: loops see all pipelines."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.dispatch.desk import Desk


@pytest.fixture(scope="module")
def address(empty_database: Callable[[], str]) -> str:
    return empty_database()


@pytest.fixture
def desk(address: str, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(address, tmp_path)
    yield made
    made.empty()
    made.close()
