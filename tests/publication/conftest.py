"""A project whose every command is a process of its own, and two ways to read what it publishes.

`rows` and `heads` are ours, `outside` is a PyIceberg client that knows the database and nothing
of Tallyman.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from tallyman.project import Project
from tallyman.registry.database import Database
from tallyman.registry.server.embedded import Embedded
from tests.conftest import INTERPRETED
from tests.forked import Running, command
from tests.orchestration.conftest import Reply

Row = tuple[object, ...]
THREE = """\
import tallyman as tm

raw = tm.source("raw", path="data/raw.jsonl", format="json", key="id", schema="id string, n int")


@tm.asset(key="id")
def a(raw):
    return raw


@tm.asset(key="id")
def b(a):
    return a.withColumn("n", "n * 2")


@tm.asset(key="id")
def c(b):
    return b.withColumn("n", "n + 1")
"""


@dataclass
class Home:
    """A project folder, the command, and readers. Its database stays up between commands."""

    path: Path
    running: list[Running] = field(default_factory=list)

    # ---- what a person does ----------------------------------------------------------------

    def pipeline(self, text: str) -> Home:
        (self.path / "pipelines").mkdir(exist_ok=True)
        (self.path / "pipelines" / "p.py").write_text(text)
        return self

    def edit(self, before: str, after: str) -> Home:
        text = (self.path / "pipelines" / "p.py").read_text()
        assert before in text
        return self.pipeline(text.replace(before, after))

    def data(self, name: str, *rows: Mapping[str, object]) -> Home:
        place = self.path / "data" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return self

    def numbers(self, *values: int) -> Home:
        return self.data("raw.jsonl", *({"id": str(v), "n": v} for v in values))

    def start(self, *words: str, **more: str) -> Running:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TALLYMAN_")}
        self.running.append(Running(self.path, {**kept, **more}, partial(command, *words)))
        return self.running[-1]

    def tallyman(self, *words: str, **more: str) -> Reply:
        return answered(self.start(*words, "--json", **more))

    def ok(self, *words: str, **more: str) -> Any:
        reply = self.tallyman(*words, **more)
        assert reply.code == 0, str(reply)
        return reply.json

    def refused(self, *words: str) -> str:
        """With exit 4: the code of the conflict."""
        reply = self.tallyman(*words)
        assert reply.code == 4, str(reply)
        return str(reply.json.get("code") or reply.json["error"]["code"])

    # ---- what readers see --------------------------------------------------------------------

    @cached_property
    def project(self) -> Project:
        """Reads only; without Spark."""
        return Project.open(self.path)

    @cached_property
    def catalog(self) -> SqlCatalog:
        url = self.project.database.url().replace("postgresql://", "postgresql+psycopg://")
        return SqlCatalog("tallyman", uri=url, init_catalog_tables="false")

    def close(self) -> None:
        """Also of a test that failed while a command stood still."""
        for running in self.running:
            running.kill()
        if "catalog" in self.__dict__:
            self.catalog.engine.dispose()
        self.project.close()
        state = self.path / ".tallyman"
        if Embedded(state).running:  # for a connection of the catalog that was still ending
            last = Database(None, state)
            last.url()
            last.close()

    def heads(self) -> dict[str, int]:
        return self.project.heads()

    def rows(self, name: str, version: int | None = None) -> list[Row]:
        _, found = self.project.rows(name, version, limit=1_000)
        return sorted(tuple(row.values()) for row in found)

    def outside(self, name: str) -> list[Row] | None:
        """None: there is no such table."""
        try:
            table = self.catalog.load_table(("published", name))
        except NoSuchTableError:
            return None
        return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())

    def with_spark(self, name: str, version: int | None = None) -> list[Row]:
        """`project.read`, in a process that has a Spark session."""
        code, out, err = Running(self.path, os.environ, partial(_read, name, version)).wait()
        assert code == 0, err
        return sorted(tuple(row) for row in json.loads(out))

    def query(self, text: str, *given: object) -> list[Row]:
        with psycopg.connect(self.project.database.url()) as connection:
            return connection.execute(text.encode(), given).fetchall()

    def change(self, url: str, *statements: str) -> None:
        """Behind the program's back."""
        with psycopg.connect(url) as connection:
            for text in statements:
                connection.execute(text.encode())

    def count(self, *tables: str) -> dict[str, int]:
        return {t: int(str(self.query(f"SELECT count(*) FROM {t}")[0][0])) for t in tables}

    def states(self, run: str) -> dict[str, str]:
        found = self.query(
            "SELECT m.asset_name || coalesce('[' || m.partition || ']', ''), m.status "
            "FROM materializations m JOIN runs r ON r.id = m.run_id WHERE r.name = %s",
            run,
        )
        return {str(target): str(status) for target, status in found}

    def status(self, run: str) -> object:
        return self.query("SELECT status FROM runs WHERE name = %s", run)[0][0]

    def damaged(self) -> list[str]:
        """Files of any version of any dataset that are not what was published."""
        listed = self.query(
            "SELECT d.name, v.ordinal FROM versions v JOIN datasets d ON d.id = v.dataset_id "
            "WHERE v.metadata_location IS NOT NULL AND v.purged_at IS NULL"
        )
        return [
            f"{name} v{ordinal}: {damage.shown} {damage.kind}"
            for name, ordinal in listed
            for damage in self.project.damaged(str(name), int(str(ordinal)))[1]
        ]


def answered(running: Running) -> Reply:
    code, out, err = running.wait()
    try:
        return Reply(code, json.loads(out), err)
    except ValueError:
        return Reply(code, out, err)


def statuses(result: Mapping[str, Any]) -> dict[str, str]:
    return {made["name"]: made["status"] for made in result["assets"]}


def _read(name: str, version: int | None) -> None:
    with Project.open() as project:
        rows = [list(row) for row in project.read(name, version=version).collect()]
    sys.stdout.write(json.dumps(rows))


@pytest.fixture(scope="session")
def new_home(spark_server: str, with_database: Callable[[Path], Path]) -> Callable[[Path], Home]:
    def make(path: Path) -> Home:
        settings = f"name: published\nmaster: {spark_server}\n{INTERPRETED}"
        (path / "tallyman.yaml").write_text(settings)
        with_database(path)
        home = Home(path).pipeline(THREE)
        home.project.database.url()
        return home

    return make


@pytest.fixture
def home(tmp_path: Path, new_home: Callable[[Path], Home]) -> Iterator[Home]:
    made = new_home(tmp_path)
    yield made
    made.close()
