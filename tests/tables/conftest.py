"""Two tables that refer to each other, in projects on one PostgreSQL; nothing here starts Spark.

Where a promise is about processes the installed command is used, elsewhere the project itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import tallyman as tm
from tests.world.databases import Databases
from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.reply import Reply

PIPELINE = """\
import tallyman as tm

person = tm.table("person", schema="name string not null, age int", key="name")
knows = tm.table(
    "knows",
    schema="src string not null, dst string not null",
    key=["src", "dst"],
    references={"src": "person.name", "dst": "person.name"},
)
"""
# Every file that a version can be read by; a restored one shares what it restores.
REACHABLE = """
    SELECT d.id, v.ordinal, v.metadata_location, f.files, f.manifest
    FROM versions v JOIN datasets d ON d.id = v.dataset_id
    JOIN version_fragments vf ON vf.dataset_id = d.id
     AND vf.since <= v.ordinal AND (vf.until IS NULL OR vf.until > v.ordinal)
    JOIN fragments f ON f.id = vf.fragment_id
    WHERE v.purged_at IS NULL AND v.metadata_location IS NOT NULL
"""
_numbers = count()

Statement = dict[str, dict[str, Any]]


def insert(into: str, *rows: Mapping[str, Any]) -> Statement:
    return {"insert": {"into": into, "rows": [dict(row) for row in rows]}}


def update(dataset: str, where: str, **values: Any) -> Statement:
    return {"update": {"dataset": dataset, "set": values, "where": where}}


def delete(dataset: str, where: str) -> Statement:
    return {"delete": {"from": dataset, "where": where}}


def person(name: str, age: int | None = None) -> Statement:
    return insert("person", {"name": name, "age": age})


def knows(src: str, dst: str) -> Statement:
    return insert("knows", {"src": src, "dst": dst})


@dataclass
class Tables(Home):
    """A project with tables, by its command and from Python."""

    def open(self) -> tm.Project:
        return tm.Project.open(self.path)

    def file(self, *statements: Statement) -> str:
        place = self.path / f"mutation_{next(_numbers)}.json"
        place.write_text(json.dumps({"statements": statements}))
        return str(place)

    def mutate(self, *statements: Statement, expect: Mapping[str, int] | None = None) -> Reply:
        words = [w for name, at in (expect or {}).items() for w in ("--expect", f"{name}={at}")]
        return self.tallyman("mutate", self.file(*statements), *words)

    @property
    def warehouse(self) -> Path:
        return self.path / "warehouse"

    def files(self) -> set[str]:
        """Whatever lies in the warehouse, below it."""
        listed = self.warehouse.rglob("*")
        return {str(p.relative_to(self.warehouse)) for p in listed if p.is_file()}


def asked(project: tm.Project, sql: str, *values: object) -> list[dict[str, Any]]:
    """Straight from the database, past our own code."""
    with psycopg.connect(project.database.url(), row_factory=dict_row) as connection:
        return connection.execute(sql, values).fetchall()


def reachable(project: tm.Project) -> set[str]:
    """Files of the warehouse that some version needs, below it."""
    found = set()
    for row in asked(project, REACHABLE):
        folder = f"org/default/dataset/{row['id']}"
        metadata = Path(row["metadata_location"]).name
        found.add(f"{folder}/metadata/{metadata}")
        found.add(f"{folder}/metadata/{metadata.replace('.metadata.json', '.manifests.avro')}")
        found |= {f"{folder}/{file['path']}" for file in row["files"]}
        if row["manifest"]:
            found.add(f"{folder}/{row['manifest']['path']}")
    return found


def rows_of(project: tm.Project, name: str, version: int | None = None) -> set[tuple[Any, ...]]:
    _, rows = project.rows(name, version, limit=100_000)
    found = {tuple(row.values()) for row in rows}
    assert len(found) == len(rows)
    return found


def all_intact(project: tm.Project) -> None:
    """Every version that can be read, byte for byte, and with as many rows as it says."""
    for dataset in project.datasets():
        for version in project.versions(dataset.name):
            if version.metadata_location and not version.purged_at:
                _, damage = project.damaged(dataset.name, version.ordinal)
                assert damage == [], f"{dataset.name} v{version.ordinal}"
                assert len(rows_of(project, dataset.name, version.ordinal)) == version.rows


@pytest.fixture(scope="module")
def new_home(
    tmp_path_factory: pytest.TempPathFactory, databases: Databases
) -> Iterator[Callable[..., Tables]]:
    """A project with a database of its own; or, given an address, in somebody else's."""
    made = Homes(tmp_path_factory, databases)

    def make(pipeline: str = PIPELINE, *, name: str = "social", database: str = "") -> Tables:
        if not database:
            return made.make(Tables, name, "").pipeline(pipeline)
        path = tmp_path_factory.mktemp("home")
        (path / "tallyman.yaml").write_text(f"name: {name}\ndatabase: {database}\n")
        return Tables(path).pipeline(pipeline)

    with made:
        yield make


@pytest.fixture
def home(new_home: Callable[..., Tables]) -> Tables:
    return new_home()


@pytest.fixture
def project(home: Tables) -> Iterator[tm.Project]:
    """Ann and Bob, who do not know each other: person v1, knows v0."""
    with home.open() as opened:
        opened.mutate([insert("person", {"name": "Ann", "age": 31}, {"name": "Bob", "age": 42})])
        yield opened
