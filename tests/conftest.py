"""For every test: a Java that starts fast, and one Spark server for many short commands."""

import os
from collections.abc import Iterator

import pytest

from tests.spark_servers import connect_server

# The one compiler level has room for little code by default; Spark makes a lot of it.
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
os.environ.setdefault("JAVA_TOOL_OPTIONS", FAST_START)


@pytest.fixture(scope="session")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Spark Connect server: starting a JVM for each command takes most of the
    time of a suite that runs hundreds of them."""
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


LONGEST_FIRST = (
    "faults",
    "engine",
    "orchestration",
    "publication",
    "acceptance",
    "tables",
    "registry",
    "query",
    "engine_tables",
    "domain",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two workers share the files: a long one at the end would leave the other idle."""
    items.sort(key=lambda item: LONGEST_FIRST.index(item.path.parent.name))
