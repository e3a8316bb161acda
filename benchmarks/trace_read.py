"""How long the history of one row takes, out of a trace of ten million records.

    .venv/bin/python benchmarks/trace_read.py --records 10000000 --steps 5

Every row is loaded and then updated by every step, all in one segment. The files are laid out as in
a run folder: four, in no order, groups of rows as large as Spark makes them. Cold is the first
question of a fresh process, without its imports; the files may be in the system's cache. Warm is
the median of questions about other rows on the same `Trace`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import duckdb

from tallyman.engine.files.past_run import Run
from tallyman.query.trace.asset import Trace

FILES, GROUP = 4, 1_000_000
BEGINS = "019c168120007000"
LOW = "(hash(i) % (1::UBIGINT << 62))::BIGINT"
ROW = """
    'JE-' || i AS id, (i % 10)::INT AS line, (4000 + i % 1000)::VARCHAR AS account,
    (i + {steps})::DECIMAL(18, 2) AS amount, DATE '2026-01-01' + (i % 31)::INT AS day,
    TIMESTAMPTZ '2026-01-01 00:00:00Z' + to_seconds(i) AS at, md5(i::VARCHAR) AS note
"""
NAMES = ("id", "line", "account", "amount", "day", "at", "note")


def write(folder: Path, rows: int, steps: int) -> None:
    place = folder / "runs" / "0201_000000_bench"
    trace = place / "ledger" / "trace"
    trace.mkdir(parents=True)
    listed = [
        {"seq": 10 * n, "id": f"{10 * n}_update", "kind": "update", "text": "amount = amount + 1"}
        | {"assigned": ["amount"], "renamed": {}, "columns": NAMES}
        for n in range(1, steps + 1)
    ]
    described = {
        "format": 2,
        "run_id": "bench",
        "openlineage_run_id": str(UUID(int=1)),
        "asset": "ledger",
        "partition": None,
        "timestamp": "2026-02-01T00:00:00Z",
        "loaded": [{"name": name} for name in NAMES],
        "steps": listed,
        "redacted": [],
    }
    target = {"asset": "ledger", "partition": None, "folder": "ledger"}
    made = {"name": "ledger", "partition": None, "status": "success"}
    for name, content in (
        ("manifest.json", {"run_id": "bench", "targets": [target]}),
        ("processing_report.json", {"status": "success", "assets": [made]}),
        ("ledger/trace/steps.json", described),
    ):
        (place / name).write_text(json.dumps(content))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        place = trace / "operation_seq=10"
        for n in range(1, steps + 1):
            (trace / f"operation_seq={10 * n}").mkdir()
        (place / "rows-00.json").write_text(json.dumps(layout(steps)))
        olds = ", ".join(f"'old_{n}': (i + {n - 1})::DECIMAL(18, 2)" for n in range(1, steps + 1))
        marks = (1 << steps + 1) - 2
        held = f"{{'id': {LOW}, 'marks_0': {marks}::BIGINT, {olds}}} AS _tm_trace"
        for file in range(FILES):
            query = f"SELECT {ROW.format(steps=steps)}, {held} FROM range({rows}) r(i)"
            to = place / f"rows-00-{file:05d}.parquet"
            options = f"FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE {GROUP}"
            connection.execute(f"COPY ({query} WHERE i % {FILES} = {file}) TO '{to}' ({options})")


def layout(steps: int) -> dict[str, object]:
    """All steps change the amount."""
    changes = [
        {"step": 10 * n, "column": "amount", "mark": n, "old": ["_tm_trace", f"old_{n}"]}
        for n in range(1, steps + 1)
    ]
    columns = [{"last": [n], "changes": changes if n == "amount" else []} for n in NAMES]
    return {
        "row": ["_tm_trace"],
        "row_id_begins": BEGINS,
        "words": 1,
        "columns": columns,
        "ended": [],
        "loaded": [{"name": name, "column": place} for place, name in enumerate(NAMES)],
        "created": None,
    }


def ask(folder: Path, rows: int, questions: int, seed: int) -> dict[str, float]:
    """In this process: the first question, then others."""
    drawn = random.Random(seed)
    listed = ", ".join(f"({drawn.randrange(rows)})" for _ in range(questions))
    with duckdb.connect() as connection:
        found = connection.sql(f"SELECT {LOW} FROM (VALUES {listed}) t(i)").fetchall()
    ids = [UUID(int=int(BEGINS, 16) << 64 | 2 << 62 | low) for (low,) in found]
    run = Run.open(folder / "runs" / "0201_000000_bench")
    taken, worked = [], []
    with Trace(run) as trace:
        for row_id in ids:
            started, used = time.perf_counter(), time.process_time()
            history = trace.row(row_id).history()
            taken.append(1000 * (time.perf_counter() - started))
            worked.append(1000 * (time.process_time() - used))
            assert len(history) == len(trace.row(row_id).steps), history.diagnostic
    return {
        "cold_ms": taken[0],
        "warm_ms": statistics.median(taken[1:]),
        "cold_processor_ms": worked[0],
        "warm_processor_ms": statistics.median(worked[1:]),
    }


def measure(folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Fresh processes, and the median of what they say."""
    found = []
    for seed in range(given.repeats):
        words = ["--ask", str(folder), "--seed", str(seed), "--records", str(given.records)]
        command = [sys.executable, __file__, *words, "--steps", str(given.steps)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append(json.loads(out))
    return {name: round(statistics.median(f[name] for f in found), 1) for name in found[0]}


def report(folder: Path, given: argparse.Namespace) -> None:
    load = os.getloadavg()[0]
    write(folder, given.records // given.steps, given.steps)
    size = sum(f.stat().st_size for f in folder.rglob("*.parquet"))
    results = measure(folder, given)
    print(
        f"{given.records:,} records of {given.steps} steps, {size / 1e6:,.0f} MB, load {load:.1f}"
    )
    print(f"history of one row   cold {results['cold_ms']} ms   warm {results['warm_ms']} ms")
    used = results["cold_processor_ms"], results["warm_processor_ms"]
    print(f"processor time       cold {used[0]} ms   warm {used[1]} ms")
    written = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "load_before": round(load, 1),  # of other work: beyond the cores, times are too long
        "repeats": given.repeats,
        "records": given.records,
        "steps": given.steps,
        "megabytes": round(size / 1e6),
        "results": results,
    }
    place = Path(__file__).parent / "results" / "trace-read.json"
    place.write_text(json.dumps(written, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ask", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ask:
        print(json.dumps(ask(given.ask, given.records // given.steps, 21, given.seed)))
        return
    with tempfile.TemporaryDirectory(prefix="tallyman-bench-") as folder:
        report(Path(folder), given)


if __name__ == "__main__":
    main()
