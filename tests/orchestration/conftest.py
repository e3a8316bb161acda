"""The numbers project of the reference scenario, and one Spark Connect server for all commands.

The command runs in a process of its own each time, as a person's would; the JVM is shared, and
most commands are forked after their imports, because these two would take most of the time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus

from tallyman.registry.database import Database
from tests.conftest import INTERPRETED
from tests.forked import Running, command

COMMAND = str(Path(sys.executable).with_name("tallyman"))
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


@tm.asset(key="id", partitioned_by=days)
def doubled(numbers):
    return numbers.withColumn("n", "n * 2")


@tm.asset(key="day", name="sum", partitioned_by=days)
def total(doubled):
    return doubled.groupBy("day").agg(total="sum(n)")
"""


@dataclass(frozen=True)
class Reply:
    code: int
    json: Any
    stderr: str

    def __str__(self) -> str:
        return f"exit {self.code}\n{json.dumps(self.json, indent=1)[:3000]}\n{self.stderr[-2000:]}"


@dataclass(frozen=True)
class Home:
    """A project folder and the installed command."""

    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def pipeline(self, text: str) -> Home:
        (self.path / "pipelines").mkdir(exist_ok=True)
        (self.path / "pipelines" / "p.py").write_text(text)
        return self

    def numbers(self, day: str, *values: int) -> Home:
        place = self.path / "data" / day / "raw.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"id": str(v), "n": v, "day": day} for v in values]
        place.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return self

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TALLYMAN_")}
        return subprocess.Popen(
            [COMMAND, *words],
            cwd=self.path,
            env={**kept, **self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def forked(self, *words: str, **more: str) -> tuple[int, str, str]:
        """The same command without its imports: exit code, stdout, stderr."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TALLYMAN_")}
        given = {**kept, **self.environment, **more}
        return Running(self.path, given, partial(command, *words)).wait()

    def tallyman(self, *words: str, **more: str) -> Reply:
        code, out, err = self.forked(*words, "--json", **more)
        try:
            parsed = json.loads(out)
        except ValueError:
            parsed = out
        return Reply(code, parsed, err)

    def ok(self, *words: str, **more: str) -> Any:
        reply = self.tallyman(*words, **more)
        assert reply.code == 0, str(reply)
        return reply.json

    def sql(self, text: str) -> list[list[str]]:
        """What the shell of the project's own database would print."""
        database = Database(None, self.path / ".tallyman")
        with psycopg.connect(database.url(), autocommit=True) as connection:
            found = connection.pgconn.exec_(text.encode())
            assert found.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK), found
            columns = range(found.nfields)
            rows = [[found.get_value(n, c) or b"" for c in columns] for n in range(found.ntuples)]
        database.close()
        return [[value.decode() for value in row] for row in rows]

    def states(self, run: str) -> dict[str, tuple[str, int]]:
        """asset -> (status, attempt), from the database."""
        rows = self.sql(
            "SELECT m.asset_name, m.status, m.attempt FROM materializations m "
            f"JOIN runs r ON r.id = m.run_id WHERE r.name = '{run}'"
        )
        return {asset: (status, int(attempt)) for asset, status, attempt in rows}


@pytest.fixture(scope="session")
def empty_home(
    tmp_path_factory: pytest.TempPathFactory,
    spark_server: str,
    with_database: Callable[[Path], Path],
) -> Callable[[], Home]:
    """Its server lives as long as a command that needs it."""

    def make() -> Home:
        path = tmp_path_factory.mktemp("home")
        settings = f"name: scenario\nmaster: {spark_server}\n{INTERPRETED}"
        (path / "tallyman.yaml").write_text(settings)
        with_database(path)
        return Home(path).pipeline(PIPELINE)

    return make


@pytest.fixture(scope="module")
def new_home(empty_home: Callable[[], Home]) -> Iterator[Callable[[], Home]]:
    """Its server stays up between commands, as it does while somebody has the project open."""
    held: list[Database] = []

    def make() -> Home:
        home = empty_home()
        held.append(Database(None, home.path / ".tallyman"))
        held[-1].url()
        return home

    yield make
    for database in held:
        database.close()


@pytest.fixture
def home(new_home: Callable[[], Home]) -> Home:
    return new_home().numbers("2025-01-01", 1, 2, 3, 4, 5)


def kill(running: subprocess.Popen[str]) -> None:
    """All of it; nothing happens when it has ended by itself."""
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
