"""What the acceptance tests share: the installed command, one finished airline run, and an oracle.

The oracle works out every number from the scenario's formula and knows neither Tallyman nor Spark.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.forked import Running, command

from tallyman.cli.start.demo_data import write_airline

COMMAND = Path(sys.executable).with_name("tallyman")


@dataclass(frozen=True)
class Reply:
    """What the command answered; `json` is None when stdout was not JSON."""

    code: int
    json: Any
    stdout: str
    stderr: str

    def __str__(self) -> str:
        return f"exit {self.code}\n{self.stdout[-3000:]}\n{self.stderr[-3000:]}"


def _installed(project: Path, *words: str) -> Reply:
    done = subprocess.run(
        [COMMAND, *words],
        cwd=project,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return _reply(done.returncode, done.stdout, done.stderr)


def _reference_run(project: Path) -> Reply:
    """Run it as a person would, for the README shows that; then ask for the same as JSON."""
    done = _installed(project, "run")
    shown = _installed(project, "show", "latest", "--json")
    reply = Reply(done.code, shown.json, done.stdout, done.stderr + shown.stderr)
    return check_queries(project, reply)


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


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("TALLYMAN_")}


def _reply(code: int, out: str, err: str) -> Reply:
    try:
        parsed = json.loads(out)
    except ValueError:
        parsed = None
    return Reply(code, parsed, out, err)


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

    Commands that need Spark share a server, and all are forked after their imports; the reference
    run itself is the installed command with a Spark of its own."""

    def run(project: Path, *words: str) -> Reply:
        shared = ("--master", spark_server) if words[0] in ("run", "verify", "why") else ()
        given = partial(command, *words, *shared, "--json")
        reply = _reply(*Running(project, _environment(), given).wait())
        return check_queries(project, reply) if words[0] == "run" else reply

    return run


@pytest.fixture(scope="session")
def scenario() -> Callable[[int], Scenario]:
    return Scenario


@pytest.fixture
def airline_project(tmp_path: Path, with_database: Callable[[Path], Path]) -> Callable[[int], Path]:
    """A project of any size of its own, not run yet."""

    def make(records: int) -> Path:
        write_airline(tmp_path / "airline", records)
        with_database(tmp_path / "airline")
        return tmp_path / "airline"

    return make


@pytest.fixture(scope="session")
def airline(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
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
            answer.write_text(json.dumps(asdict(_reference_run(project))))
            # For the README: a database can be copied only while nobody uses it.
            (shared / "walk").mkdir()
            subprocess.run(["cp", "-a", project, shared / "walk" / "airline-demo"], check=True)
    reply = Reply(**json.loads(answer.read_text()))
    assert reply.code == 0, str(reply)
    return FinishedRun(project, reply.json, reply.stdout)


@pytest.fixture
def airline_copy(
    airline: FinishedRun, tmp_path: Path, with_database: Callable[[Path], Path]
) -> FinishedRun:
    """A copy of the finished run and its inputs, to be tampered with."""
    copy = tmp_path / "airline"
    copy.mkdir()
    with_database(copy)
    shutil.copy(airline.project / "tallyman.yaml", copy)
    shutil.copytree(airline.project / "pipelines", copy / "pipelines")
    shutil.copytree(airline.project / "data", copy / "data")
    folder = airline.folder.relative_to(airline.project)
    shutil.copytree(airline.folder, copy / folder)
    return FinishedRun(copy, {**airline.reply, "folder": str(folder)})
