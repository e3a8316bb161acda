"""A small airline project, the installed command, and what a run left, in comparable form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tallyman.cli.demo_data import write_airline

COMMAND = str(Path(sys.executable).with_name("tallyman"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_airline(tmp_path, records=34_966)
    return tmp_path


def start(project: Path, *words: str) -> subprocess.Popen[str]:
    """The command in a process group of its own, so that a test can end all of it."""
    return subprocess.Popen(
        [COMMAND, *words],
        cwd=project,
        env={k: v for k, v in os.environ.items() if k != "CI"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def tallyman(project: Path, *words: str) -> tuple[int, Any]:
    done = subprocess.run(
        [COMMAND, *words, "--json"], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


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
