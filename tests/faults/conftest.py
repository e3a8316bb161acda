"""A small airline project, the installed command, and what a run left, in comparable form.

The project has one run in a process of its own, which was interrupted and resumed: what other
kinds of Spark give is compared with what that one gave.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tallyman.cli.start.demo_data import write_airline
from tests.dispositions import at_a_terminal
from tests.world.databases import Databases
from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.scale import FULL
from tests.world.waiting import wait_until

RECORDS = 34_966 if FULL else 10_600


@dataclass(frozen=True)
class Stopped:
    """What a run said and left that was interrupted in the middle, and the end of its resume."""

    code: int
    err: str
    outputs: list[Path]
    shown: dict[str, Any]
    resumed: tuple[int, dict[str, Any]]


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("airline")
    write_airline(path, records=RECORDS)
    with Homes(tmp_path_factory, databases) as homes:
        homes.give_database(path)
        yield path


@pytest.fixture(scope="session")
def stopped(project: Path) -> Stopped:
    home = Home(project)
    with at_a_terminal():
        running = home.installed("run", "--run-id", "stopped", CI="")
    staging = "*_stopped/.staging/*"
    wait_until(lambda: any((project / "runs").glob(staging)) or running.poll() is not None)
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=60)
    outputs = list((project / "runs").glob("*_stopped/*/output"))
    shown = home.ok("show", "stopped")
    resumed = home.forked("resume", "stopped", "--json")  # with a Spark of its own
    return Stopped(running.returncode, err, outputs, shown, (resumed.code, resumed.json))


@pytest.fixture(scope="session")
def alone(project: Path, stopped: Stopped) -> dict[str, Any]:
    """What one process gives."""
    code, result = stopped.resumed
    assert code == 0, result
    return left_by(project, result["folder"])


def left_by(project: Path, folder: str) -> dict[str, Any]:
    """Ledger counts, dead letters and output of a run, without the names of the run."""
    asset = project / folder / "daily_revenue"
    ledger = json.loads((asset / "ledger.json").read_text())
    letters = [
        json.loads(line)
        for path in sorted((asset / "errors").rglob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    for letter in letters:
        for name in ("run_id", "openlineage_run_id", "timestamp"):
            del letter[name]
    rows = pq.read_table(asset / "output").to_pylist()
    parts = ledger["output_accounting"]["partitions"]
    return {
        "balanced": ledger["verification"]["accounting_balanced"],
        "fates": {p["adjoint_location"]: (p["record_count"], p["key_digest"]) for p in parts},
        "letters": sorted(json.dumps(letter, sort_keys=True) for letter in letters),
        "output": sorted(json.dumps(row, sort_keys=True, default=str) for row in rows),
    }
