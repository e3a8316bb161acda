"""What many files, many columns and many assets cost: seconds per phase of a run.

    .venv/bin/python benchmarks/many.py
    .venv/bin/python benchmarks/many.py --files 0 --columns 0 --assets 500

Each case is a project of its own, run once by the installed command; the phases are those of the
run's report, the last column is the whole command with the start of Spark. `--tallyman` measures
another installation.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from os import cpu_count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

RECORDS = 3
"""The number of records in each of many files."""
PHASES = ("opening", "evaluating", "settling", "proving", "staging")
HEAD = "import tallyman as tm\n\n"
ASSET = "\n@tm.asset\ndef asset_{n}(rows):\n    return rows.withColumn('more', 'v + {n}')\n"


def json_files(home: Path, count: int) -> None:
    for number in range(count):
        rows = [{"id": f"{number}-{n}", "v": n} for n in range(RECORDS)]
        file = home / "data" / f"f{number:05d}.json"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = 'tm.source("rows", "data", schema="id string, v int", key="id")\n'
    pipeline(home, source + ASSET.format(n=1))


def parquet_files(home: Path, count: int) -> None:
    for number in range(count):
        rows = pa.table({"id": [f"{number}-{n}" for n in range(RECORDS)], "v": range(RECORDS)})
        pq.write_table(rows, home / "data" / f"f{number:05d}.parquet")
    source = 'tm.source("rows", "data", format="parquet", key="id")\n'
    pipeline(home, source + ASSET.format(n=1))


def wide_rows(home: Path, count: int) -> None:
    names = [f"c{n}" for n in range(count)]
    rows = [{"id": str(n), "v": n, **dict.fromkeys(names, n)} for n in range(2)]
    (home / "data" / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    schema = ", ".join(["id string", "v int", *(f"{name} int" for name in names)])
    source = f'tm.source("rows", "data", schema="{schema}", key="id")\n'
    pipeline(home, source + ASSET.format(n=1))


def many_assets(home: Path, count: int) -> None:
    rows = "".join(json.dumps({"id": str(n), "v": n}) + "\n" for n in range(10))
    (home / "data" / "rows.json").write_text(rows)
    source = 'tm.source("rows", "data", schema="id string, v int", key="id")\n'
    pipeline(home, source + "".join(ASSET.format(n=n) for n in range(count)))


def pipeline(home: Path, text: str) -> None:
    (home / "pipelines").mkdir()
    (home / "pipelines" / "many.py").write_text(HEAD + text)
    (home / "tallyman.yaml").write_text("name: many\n")


CASES = {
    "files, JSON": json_files,
    "files, Parquet": parquet_files,
    "columns, 2 rows": wide_rows,
    "assets of 10 rows": many_assets,
}


def timings(found: object) -> Iterator[tuple[str, int]]:
    """Yield every phase of a report with its milliseconds."""
    if isinstance(found, dict):
        for name, inside in found.items():
            if name == "timings":
                yield from ((lap["phase"], lap["ms"]) for lap in inside if "phase" in lap)
            else:
                yield from timings(inside)
    elif isinstance(found, list):
        for one in found:
            yield from timings(one)


def measured(command: str, case: str, count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="many-") as folder:
        home = Path(folder)
        (home / "data").mkdir()
        CASES[case](home, count)
        begun = time.perf_counter()
        done = subprocess.run([command, "run"], cwd=home, capture_output=True, text=True)
        whole = time.perf_counter() - begun
        if done.returncode:
            sys.exit(f"{case}: {done.stdout}{done.stderr}")
        spent = Counter[str]()
        for report in home.glob("runs/*/processing_report.json"):
            for phase, milliseconds in timings(json.loads(report.read_text())):
                spent[phase] += milliseconds
    seconds = {phase: spent[phase] / 1_000 for phase in PHASES}
    return {phase: round(one, 2) for phase, one in (seconds | {"command": whole}).items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--files", type=int, default=3_000)
    options.add_argument("--columns", type=int, default=2_000)
    options.add_argument("--assets", type=int, default=0)
    options.add_argument("--tallyman", default=str(Path(sys.executable).with_name("tallyman")))
    options.add_argument("--output", type=Path, help="write the results as JSON")
    asked = options.parse_args()
    counts = (asked.files, asked.files, asked.columns, asked.assets)
    print(f"{'':26}" + "".join(f"{name:>12}" for name in (*PHASES, "command")))
    results = {}
    for case, count in zip(CASES, counts, strict=True):
        if count:
            found = results[f"{count} {case}"] = measured(asked.tallyman, case, count)
            shown = "".join(f"{seconds:>11.1f}s" for seconds in found.values())
            print(f"{count:>7,} {case:<18}{shown}", flush=True)
    if asked.output:
        machine = f"{cpu_count()} cores, {platform.machine()}"
        facts = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine, "seconds": results}
        asked.output.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
