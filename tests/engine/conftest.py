"""What the engine tests share: one Spark, small projects on disk, and a reader of what a run left.

The reader knows the files of a run folder and nothing of the engine: DuckDB for Parquet, json
for the rest.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

import tallyman as tm
from tallyman.registry.database import Database
from tests.world.homes import INTERPRETED

COMPILED = """\
spark:
  spark.sql.codegen.wholeStage: "true"
  spark.sql.codegen.factoryMode: FALLBACK
  spark.sql.shuffle.partitions: "2"
"""
HEAD = """\
import tallyman as tm
from pyspark.sql import functions as F
from pyspark.sql.window import Window

"""


@dataclass(frozen=True)
class AssetFiles:
    """One asset's folder in a finished run, read as a stranger would."""

    folder: Path

    @property
    def ledger(self) -> dict[str, Any]:
        return json.loads((self.folder / "ledger.json").read_text())

    @property
    def balanced(self) -> bool:
        return self.ledger["verification"]["accounting_balanced"]

    @property
    def door(self) -> dict[str, Any]:
        return self.ledger["input_accounting"]

    @property
    def partitions(self) -> list[dict[str, Any]]:
        return self.ledger["output_accounting"]["partitions"]

    @property
    def subs(self) -> list[dict[str, Any]]:
        return self.ledger["sub_ledgers"]

    @property
    def fates(self) -> dict[str, int]:
        """Records by fate, without the fates nobody met."""
        return fates_of(self.partitions)

    @property
    def rejections(self) -> list[dict[str, Any]]:
        files = sorted((self.folder / "errors").rglob("*.jsonl"))
        # Not splitlines: a dead letter may hold any character that Unicode calls a line break.
        lines = [line for f in files for line in f.read_text("utf-8").split("\n") if line]
        return [json.loads(line) for line in lines]

    @property
    def summary(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "errors" / "_summary.json").read_text())

    def query(self, location: str, sql: str) -> list[tuple[Any, ...]]:
        """SQL over the Parquet files of an adjoint location, as the table `found`."""
        files = [str(p) for p in sorted((self.folder / location).rglob("*.parquet"))]
        if not files:
            return []
        with duckdb.connect() as connection:
            connection.execute(
                "CREATE TABLE found AS SELECT * FROM read_parquet($f, hive_partitioning=false)",
                {"f": files},
            )
            return connection.execute(sql).fetchall()

    def keys_of(self, partition: dict[str, Any], level: int = 0) -> Counter[str]:
        """The keys one partition claims, as often as it claims them."""
        place = partition["adjoint_location"]
        match partition["partition_type"]:
            case "ERROR":
                return self._rejected_keys(level)
            case "EXPLODED":
                sql = "SELECT parent_key FROM found WHERE child_key LIKE '%/0'"
            case "PASS_THROUGH":
                own = [f"CAST({_quoted(c)} AS VARCHAR)" for c in partition.get("key_columns", [])]
                assert len(own) <= 1, "the tests read single keys only"
                sql = f"SELECT coalesce({', '.join(['_tm.key', *own])}) FROM found"
            case _:
                sql = "SELECT source_key FROM found"
        return Counter(row[0] for row in self.query(place, sql))

    def _rejected_keys(self, level: int) -> Counter[str]:
        """One record may have several rejections, never two for one rule."""
        mine = [r for r in self.rejections if int(r["context"].get("level", 0)) == level]
        each = Counter((r["source_key"], r["morphism_path"], r["error_type"]) for r in mine)
        found: Counter[str] = Counter()
        for (key, *_), times in each.items():
            found[key] = max(found[key], times)
        return found

    def accounted(self) -> Counter[str]:
        """Every key of level 0 that some partition claims; each partition must claim its count."""
        whole: Counter[str] = Counter()
        for partition in self.partitions:
            keys = self.keys_of(partition)
            assert keys.total() == partition["record_count"], partition
            whole += keys
        return whole


def fates_of(partitions: Iterable[dict[str, Any]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for partition in partitions:
        found[partition["partition_type"]] += partition["record_count"]
    return {name: count for name, count in found.items() if count}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Ran:
    """A finished run of a small project."""

    project: tm.Project
    result: tm.RunResult

    def __getitem__(self, asset: str) -> AssetFiles:
        return AssetFiles(self.project.settings.home / self.result.folder / asset)

    def asset(self, name: str) -> tm.AssetResult:
        [found] = [a for a in self.result.assets if a.name == name]
        return found

    def read(self, asset: str) -> DataFrame:
        """What the run made of it, published or not: some runs fail on purpose."""
        output = self.project.settings.home / self.result.folder / asset / "output"
        return self.project.spark.read.parquet(str(output)).drop("_tm")

    def rows(self, asset: str) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in self.read(asset).collect()]


@dataclass(frozen=True)
class Workshop:
    """A project folder in the making."""

    home: Path

    def pipeline(self, text: str) -> "Workshop":
        (self.home / "pipelines").mkdir(exist_ok=True)
        (self.home / "pipelines" / "p.py").write_text(HEAD + text, "utf-8")
        return self

    def compiled(self, document: str) -> "Workshop":
        """A pipeline in its compiled form, without the file that it was compiled from."""
        (self.home / "pipelines" / "p.py").unlink()
        (self.home / "pipelines" / "p.json").write_text(document, "utf-8")
        return self

    def lines(self, name: str, lines: Iterable[str | bytes | dict[str, Any]]) -> "Workshop":
        """A file in data/, one line per item: text and bytes as they are, mappings as JSON."""
        return self.raw(name, b"".join(_line(line) + b"\n" for line in lines))

    def raw(self, name: str, content: bytes) -> "Workshop":
        place = self.home / "data" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        return self

    def parquet(self, name: str, rows: DataFrame) -> "Workshop":
        rows.coalesce(1).write.parquet(str(self.home / "data" / name))
        return self

    @property
    def data(self) -> str:
        return str(self.home / "data")

    def open(self) -> tm.Project:
        return tm.Project.open(self.home)

    def run(self, *selection: str, **options: Any) -> Ran:
        project = self.open()
        return Ran(project, project.run(selection, **{"jobs": 4, **options}))


def _line(line: str | bytes | dict[str, Any]) -> bytes:
    if isinstance(line, dict):
        line = json.dumps(line, ensure_ascii=False)
    return line if isinstance(line, bytes) else line.encode()


END_SESSIONS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


@pytest.fixture(scope="session")
def new_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], str]]:
    """new_database(): the address of a database of its own, on one server for all of them."""
    server = Database(None, tmp_path_factory.mktemp("database"))
    with server.transaction():
        pass  # makes the tables: what the others are copied from
    names = (f"test_{n}" for n in count())
    url, owner = server.url(), server.owner_url
    server.close(leave_running=True)

    def make() -> str:
        name = next(names)
        with psycopg.connect(owner.replace("/tallyman?", "/postgres?"), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name} TEMPLATE tallyman")
        return url.replace("/tallyman?", f"/{name}?")

    yield make
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(owner) as admin:
        admin.execute(END_SESSIONS)
    server.url()
    server.close()


@pytest.fixture(scope="session")
def workshop(
    tmp_path_factory: pytest.TempPathFactory, new_database: Callable[[], str]
) -> Callable[..., Workshop]:
    """workshop(): an empty project of its own. `interpreted` where Spark's own code is not what
    is tested: compiling a plan takes longer than a handful of rows."""

    def make(*, interpreted: bool = False) -> Workshop:
        home = tmp_path_factory.mktemp("project")
        settings = INTERPRETED if interpreted else COMPILED  # said each time: one session for all
        (home / "tallyman.yaml").write_text(f"name: test\ndatabase: {new_database()}\n{settings}")
        return Workshop(home)

    return make


@pytest.fixture(scope="session")
def spark(workshop: Callable[[], Workshop]) -> SparkSession:
    """The session every project of this process shares."""
    return workshop().open().spark


def shape(rows: DataFrame) -> list[tuple[str, str]]:
    return [(f.name, f.dataType.simpleString()) for f in rows.schema]


def bag(rows: DataFrame) -> Counter[str]:
    """Rows as a multiset; repr tells NULL from 'None' and 1 from 1.0."""
    return Counter(repr(tuple(row)) for row in rows.collect())


def columns_of(ran: Ran, asset: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[n] for n in names) for row in ran.rows(asset))
