"""What the acceptance tests share: the installed command, one finished airline run, and an oracle.

The oracle works out every number from the scenario's formula and knows neither Tallyman nor Spark.
"""

import fcntl
import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tallyman.cli.start.demo_data import write_airline
from tallyman.project import Project
from tests.world.databases import Databases
from tests.world.home import Home
from tests.world.homes import INTERPRETED, Homes
from tests.world.reply import Reply


def _reference_run(project: Path) -> Reply:
    """Run it as a person would, for the README shows that; then ask for the same as JSON."""
    home = Home(project)
    done, shown = (_ended(home.installed(*words)) for words in (("run",), ("show", "--json")))
    check_queries(project, shown)
    return Reply(done.code, json.dumps([done.stdout, shown.json]), done.stderr + shown.stderr)


def _ended(running: subprocess.Popen[str]) -> Reply:
    said, errors = running.communicate(timeout=240)
    return Reply(running.returncode, said, errors)


def counted_by_query(run_folder: Path, asset: str) -> dict[str, tuple[int, int]]:
    """What the ledger's own query answers, as it is written: records and distinct keys by fate."""
    query = json.loads((run_folder / asset / "ledger.json").read_text())["verification"]
    with duckdb.connect(config={"file_search_path": str(run_folder)}) as connection:
        rows = connection.execute(query["verification_query"]).fetchall()
    return {fate: (records, keys) for fate, records, keys in rows}


def check_queries(project: Path, reply: Reply) -> Reply:
    """Every run: the query of each ledger that was closed counts what the ledger says."""
    for asset in (reply.json or {}).get("assets", []) if isinstance(reply.json, dict) else []:
        folder = project / reply.json["folder"]
        ledger = folder / asset["name"] / "ledger.json"
        if not ledger.exists():
            continue
        content = json.loads(ledger.read_text())
        found = counted_by_query(folder, asset["name"])
        if content["verification"]["accounting_balanced"] and "ALL" in found:
            assert found["ALL"][0] == content["input_accounting"]["total_records"], found
            for fate, count in fates(content).items():
                assert found[fate][0] == count, (fate, count, found)
    return reply


def fates(ledger: Any) -> Counter[str]:
    """Records by fate; the query has our word for rows that passed."""
    count: Counter[str] = Counter()
    for part in ledger["output_accounting"]["partitions"]:
        count[part["partition_type"].replace("PASS_THROUGH", "PASSED")] += part["record_count"]
    return +count


@dataclass(frozen=True)
class FinishedRun:
    """One run on disk. `asset` is the folder of daily_revenue inside it."""

    project: Path
    reply: Any
    text: str = ""
    """What the command printed."""

    @property
    def run_id(self) -> str:
        return self.reply["run_id"]

    @property
    def folder(self) -> Path:
        return self.project / self.reply["folder"]

    @property
    def asset(self) -> Path:
        return self.folder / "daily_revenue"

    @property
    def ledger(self) -> Any:
        return json.loads((self.asset / "ledger.json").read_text())

    @property
    def rejections(self) -> list[dict[str, Any]]:
        """Every dead-letter line, read as a stranger would: by folder and by line."""
        files = sorted((self.asset / "errors").glob("error_type=*/*.json*"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def evidence(self, partition_type: str) -> Path:
        """Where the ledger says the proof for one kind of fate is."""
        entries = self.ledger["output_accounting"]["partitions"]
        [entry] = [e for e in entries if e["partition_type"] == partition_type]
        return self.asset / entry["adjoint_location"]


@dataclass(frozen=True)
class Scenario:
    """The reference scenario for any number of records, straight from its formula."""

    records: int

    @property
    def error_indexes(self) -> range:
        return range(0, self.records, 530)

    @property
    def filtered_indexes(self) -> list[int]:
        return [i for i in range(self.records) if i % 350 in {1, 2, 3, 4}]

    @property
    def aggregated_indexes(self) -> list[int]:
        return [i for i in range(self.records) if i % 530 and i % 350 not in {1, 2, 3, 4}]

    @property
    def fates(self) -> dict[str, int]:
        return {
            "AGGREGATED": len(self.aggregated_indexes),
            "FILTERED": len(self.filtered_indexes),
            "ERROR": len(self.error_indexes),
        }

    @property
    def rejections_by_type(self) -> Counter[str]:
        kinds = ["type_cast_error", "null_error", "refinement_error", "join_error", "parse_error"]
        count = Counter(kinds[i // 530 % 5] for i in self.error_indexes)
        count["refinement_error"] += sum(i // 530 % 10 == 0 for i in self.error_indexes)
        return count

    @property
    def days(self) -> dict[date, tuple[Decimal, int]]:
        """flight_date -> (total_revenue, segments)."""
        cents: Counter[date] = Counter()
        segments: Counter[date] = Counter()
        for i in self.aggregated_indexes:
            day = date(2024, 1, 15) + timedelta(days=i % 32)
            cents[day] += 10_000 + 37 * i % 50_000
            segments[day] += 1
        return {day: (Decimal(cents[day]).scaleb(-2), segments[day]) for day in segments}


@pytest.fixture(scope="session")
def tallyman(spark_server: str) -> Callable[..., Reply]:
    """tallyman(project, "verify", run_id): run the command there, with --json.

    Commands that need Spark share a server; the reference run itself is the installed command
    with a Spark of its own."""

    def run(project: Path, *words: str) -> Reply:
        shared = ("--master", spark_server) if words[0] in ("run", "verify", "why") else ()
        reply = Home(project).tallyman(*words, *shared)
        return check_queries(project, reply) if words[0] == "run" else reply

    return run


@pytest.fixture(scope="session")
def scenario() -> Callable[[int], Scenario]:
    return Scenario


@pytest.fixture
def airline_project(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, databases: Databases
) -> Iterator[Callable[[int], Path]]:
    """A project of any size of its own, not run yet."""
    with Homes(tmp_path_factory, databases) as homes:

        def make(records: int) -> Path:
            write_airline(tmp_path / "airline", records)
            interpret(tmp_path / "airline")
            homes.give_database(tmp_path / "airline")
            return tmp_path / "airline"

        yield make


def interpret(project: Path) -> None:
    """Let Spark interpret its plans; the reference run compiles them."""
    with (project / "tallyman.yaml").open("a") as settings:
        settings.write(INTERPRETED)


@pytest.fixture(scope="session")
def airline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedRun]:
    """The whole reference scenario, made once and run once. Read it, never change it."""
    base = tmp_path_factory.getbasetemp()
    # Workers of pytest-xdist share the parent of their folders; the first one in makes the run.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    project, answer = shared / "airline", shared / "airline.json"
    with (shared / "airline.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answer.exists():
            write_airline(project)
            # A failure is kept as well: trying again would hide it.
            answer.write_text(json.dumps(_reference_run(project)))
            # For the README: a database can be copied only while nobody uses it.
            (shared / "walk").mkdir()
            subprocess.run(["cp", "-a", project, shared / "walk" / "airline-demo"], check=True)
    reply = Reply(*json.loads(answer.read_text()))
    assert reply.code == 0, str(reply)
    printed, shown = reply.json
    # Its server stays up: each command would start and stop it.
    with Project.open(project) as held:
        held.database.url()
        yield FinishedRun(project, shown, printed)


SMALL = 5_300
"""Ten records of it are broken, each kind of error twice."""


@pytest.fixture(scope="module")
def small(
    tmp_path_factory: pytest.TempPathFactory,
    databases: Databases,
    tallyman: Callable[..., Reply],
) -> Iterator[FinishedRun]:
    """The scenario on few records, run once: what is copied from it may be tampered with."""
    project = tmp_path_factory.mktemp("small") / "airline"
    with Homes(tmp_path_factory, databases) as homes:
        write_airline(project, SMALL)
        interpret(project)
        homes.give_database(project)
        reply = tallyman(project, "run")
        assert reply.code == 0, str(reply)
        yield FinishedRun(project, reply.json)


@pytest.fixture
def small_copy(
    small: FinishedRun, tmp_path: Path, empty_database: Callable[[], str]
) -> FinishedRun:
    """A copy of the finished run and its inputs, to be tampered with; its registry is empty."""
    copy = tmp_path / "airline"
    shutil.copytree(small.project, copy)  # never links: both ends of one would change
    settings = (copy / "tallyman.yaml").read_text().splitlines()
    kept = [line for line in settings if not line.startswith("database:")]
    text = "\n".join([*kept, f"database: {empty_database()}"])
    (copy / "tallyman.yaml").write_text(text + "\n")
    return FinishedRun(copy, small.reply)
