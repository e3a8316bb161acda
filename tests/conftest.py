"""For every test: a Java that starts fast, one Spark server for many short commands, and
databases that need not be made."""

import fcntl
import gc
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

from tallyman.engine.spark import class_archive
from tallyman.engine.spark.mode import ENABLED
from tallyman.errors import UsageError
from tallyman.registry.database import Database
from tests import planting, schedule
from tests.guard import ProcessState
from tests.spark_servers import start_connect_server
from tests.world import scale
from tests.world.collector import Collector, serving
from tests.world.databases import Databases
from tests.world.homes import Homes

planting.install()

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

# Settings of whoever starts the tests: they are for their work, and so are the databases, servers
# and collectors that some of them name.
FOREIGN = ("TALLYMAN_", "OPENLINEAGE", "SPARK_", "PYSPARK_", "PG", "GIT_")
OURS = (
    "TALLYMAN_SEED",
    "TALLYMAN_CHAINS",
    "TALLYMAN_SCALE",
    "TALLYMAN_TURN",
    "TALLYMAN_DURATIONS",
    "TALLYMAN_RECORD",
)
for name in [n for n in os.environ if n.startswith(FOREIGN) and n not in OURS]:
    del os.environ[name]
os.environ.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")

SERVER = "spark_server.json"


def pytest_report_header() -> str:
    turn = "all cases" if scale.FULL else f"some cases: TALLYMAN_TURN={scale.TURN}"
    return f"form: {'full' if scale.FULL else 'small; TALLYMAN_SCALE=full'}, {turn}"


def pytest_configure(config: pytest.Config) -> None:
    """Keep Spark's classes ready for the hundreds of Java processes to come: each starts in half
    the time. The archive is made once, before any worker starts."""
    config.addinivalue_line("markers", scale.MARKER)
    if "PYTEST_XDIST_WORKER" not in os.environ and hasattr(config, "cache"):
        os.environ["XDG_CACHE_HOME"] = str(config.cache.mkdir("tallyman"))
        if not class_archive.archive().is_file():
            with suppress(UsageError):  # a Java that makes none starts slower, and that is all
                class_archive.make()


@pytest.fixture(scope="session", autouse=True)
def process_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessState]:
    """The process as each test has to leave it. The user's own folder is an empty one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("user")))
        yield ProcessState.now()


@pytest.fixture(autouse=True)
def _leaves_the_process_as_it_was(process_state: ProcessState) -> Iterator[None]:
    yield
    changed = list(process_state.differences(ProcessState.now()))
    if changed:
        process_state.restore()
    assert not changed, "the test, or a fixture that it began, left changed: " + "; ".join(changed)


@pytest.fixture
def own_mode() -> Iterator[None]:
    """For tests that share an open project: PySpark's mode does not go on from one to the next."""
    before = ENABLED in os.environ
    yield
    if not before:
        os.environ.pop(ENABLED, None)


@pytest.fixture(scope="session")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a Spark Connect server: starting a JVM for each command takes most of the
    time of a suite that runs hundreds of them. The first worker that needs it starts it for all;
    it ends with the whole session, because nobody knows which worker is the last."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    known = shared / SERVER
    with (shared / "spark_server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not known.exists():
            # Each worker may have a sleeping task.
            started = start_connect_server(tmp_path_factory.mktemp("connect"), cores=4)
            known.write_text(json.dumps(started))
    return str(json.loads(known.read_text())[1])


def pytest_unconfigure(config: pytest.Config) -> None:
    """After the workers have gone; their folders are below the one of this process."""
    folder = getattr(getattr(config, "_tmp_path_factory", None), "_basetemp", None)
    known = folder and "PYTEST_XDIST_WORKER" not in os.environ and folder / SERVER
    if known and known.exists():
        os.killpg(json.loads(known.read_text())[0], signal.SIGKILL)


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """One PostgreSQL server for all projects of this process."""
    served = Databases()
    yield served
    served.close()


@pytest.fixture(scope="session")
def session_homes(
    tmp_path_factory: pytest.TempPathFactory, databases: Databases, spark_server: str
) -> Iterator[Homes]:
    with Homes(tmp_path_factory, databases, spark_server) as homes:
        yield homes


@pytest.fixture(scope="module")
def homes(
    tmp_path_factory: pytest.TempPathFactory, databases: Databases, spark_server: str
) -> Iterator[Homes]:
    with Homes(tmp_path_factory, databases, spark_server) as made:
        yield made


@pytest.fixture
def collectors() -> Iterator[Callable[..., Collector]]:
    """collectors(answer=…): another collector that listens on this machine."""
    with serving() as start:
        yield start


@pytest.fixture(scope="module")
def empty_database(databases: Databases) -> Iterator[Callable[[], str]]:
    """empty_database(): the address of a migrated database without a row."""
    made: list[str] = []

    def make() -> str:
        made.append(databases.new())
        return made[-1]

    yield make
    for address in made:
        databases.drop(address)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's state with a server of its own, which is made, migrated and stopped."""
    state = tmp_path_factory.mktemp("made") / ".tallyman"
    database = Database(None, state)
    with database.transaction():
        pass
    database.close()
    return state


@pytest.fixture(scope="session")
def with_database(made: Path) -> Callable[[Path], Path]:
    """with_database(project): a copy of it, for tests of a project's own server."""

    def give(project: Path) -> Path:
        subprocess.run(["cp", "-a", str(made), str(project / ".tallyman")], check=True)
        return project / ".tallyman"

    return give


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    return schedule.ByGroup(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not scale.FULL and (large := {one for one in items if one.get_closest_marker("large")}):
        config.hook.pytest_deselected(items=list(large))
        items[:] = [item for item in items if item not in large]
    schedule.longest_first(items)


def pytest_collection_finish() -> None:
    """Leave all that was imported out of the search for garbage, which takes a seventh of this
    process's time otherwise, and touches memory that is then copied for every fork."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Or DuckDB complains at the end of what is left."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the files that grew; TALLYMAN_DURATIONS=record takes the new figures instead."""
    stats = terminalreporter.stats.values()
    now = schedule.taken(one for some in stats for one in some if hasattr(one, "duration"))
    if os.environ.get("TALLYMAN_DURATIONS") == "record":
        schedule.record(now)
    elif found := schedule.grown(schedule.recorded(), now):
        terminalreporter.section("files that take longer than recorded")
        for line in found:
            terminalreporter.line(line)
