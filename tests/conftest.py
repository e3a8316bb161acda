"""For every test: a Java that starts fast, one Spark server for many short commands, and
databases that need not be made."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

from tallyman.registry.database import Database
from tests.spark_servers import connect_server

FAST_START = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    # The one compiler level has room for little code by default; Spark makes a lot of it.
    "-XX:ReservedCodeCacheSize=256m",
    # Classes of released jars need no proof that their code is sound.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    # Without native libraries Hadoop starts `chmod` for every file; this way takes a third less.
    "-Djdk.lang.Process.launchMechanism=VFORK",
)
os.environ.setdefault("JAVA_TOOL_OPTIONS", " ".join(FAST_START))

# Spark compiles each plan before it runs it; for a handful of rows that takes longer than the rows.
# Only for tests of what surrounds a run: what steps mean is tested with code as users run it.
INTERPRETED = """\
spark:
  spark.sql.codegen.wholeStage: "false"
  spark.sql.codegen.factoryMode: NO_CODEGEN
"""


@pytest.fixture(scope="session")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Spark Connect server: starting a JVM for each command takes most of the
    time of a suite that runs hundreds of them."""
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's state with a database that is made, migrated and stopped."""
    state = tmp_path_factory.mktemp("made") / ".tallyman"
    database = Database(None, state)
    with database.transaction():
        pass
    database.close()
    return state


@pytest.fixture(scope="session")
def with_database(made: Path) -> Callable[[Path], Path]:
    """with_database(project): a copy of it for the project, because making one takes longer."""

    def give(project: Path) -> Path:
        subprocess.run(["cp", "-a", str(made), str(project / ".tallyman")], check=True)
        return project / ".tallyman"

    return give


LONGEST_FIRST = (
    "faults",
    "engine",
    "trace",
    "orchestration",
    "publication",
    "rejections",
    "walk",
    "acceptance",
    "tables",
    "registry",
    "query",
    "trace_read",
    "definitions_yaml",
    "engine_tables",
    "domain",
)


# Folders whose files share a Spark in the test's own process, or one run, stay in one worker.
TOGETHER = {"engine": "engine", "trace": "engine", "faults": "faults", "walk": "walk"}


class ByFile(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return TOGETHER.get(Path(file).parent.name, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two workers share the files: a long one at the end would leave the other idle."""
    items.sort(key=lambda item: LONGEST_FIRST.index(item.path.parent.name))
