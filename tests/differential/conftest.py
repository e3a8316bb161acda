"""One Spark session, and a seed that is printed when a test fails."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tallyman.testing.spark import session_for_tests


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session_for_tests(tmp_path_factory.mktemp("spark")) as found:
        yield found


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("TALLYMAN_SEED", "1"))
