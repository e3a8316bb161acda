"""What it costs to measure the columns of a text input at the door (`column_metrics: true`).

    .venv/bin/python benchmarks/column_metrics.py --records 1000000

A CSV file and JSON lines of ten columns, each read by an asset that filters and groups. Each round
runs every case once, with and without the setting, in one Spark session and with no door
remembered. Seconds of the asset alone, median of the repeats; the ratio is the median of the ratios
within each round, because the machine may be shared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import duckdb

import tallyman as tm

COLUMNS = (
    "id string, code string, day date, price decimal(10,2), amount int, weight double, "
    "at timestamp, name string, flag boolean, note string"
)
PIPELINE = f"""\
import tallyman as tm

schema = "{COLUMNS}"
rows_csv = tm.source("rows_csv", path="../data/r.csv", format="csv", key="id", schema=schema)
rows_json = tm.source("rows_json", path="../data/r.jsonl", format="json", key="id", schema=schema)


def plan(rows):
    return rows.filter("amount > 100", reason="small").groupBy("day").agg(total="sum(price)")


tm.asset(lambda rows_csv: plan(rows_csv), name="csv", key="day")
tm.asset(lambda rows_json: plan(rows_json), name="json", key="day")
"""
RECORDS = """
    SELECT printf('S-%08d', i) AS id, printf('%08x', i * 7919 % 4294967296) AS code,
           DATE '2025-01-01' + (i % 32)::INTEGER AS day,
           (i % 50000 / 100)::DECIMAL(10, 2) AS price, i % 1000 AS amount, i / 7.0 AS weight,
           TIMESTAMP '2025-01-01 00:00:00' + to_seconds(i) AS at, 'name ' || i % 5000 AS name,
           i % 2 = 0 AS flag, CASE WHEN i % 3 = 0 THEN 'a note' END AS note
    FROM range($records) AS r(i)
"""
CASES = ("csv", "json")


def make_projects(place: Path, records: int) -> dict[bool, Path]:
    (place / "data").mkdir(parents=True)
    with duckdb.connect() as connection:
        given = {"records": records}
        connection.execute(f"COPY ({RECORDS}) TO '{place}/data/r.csv' (HEADER)", given)
        connection.execute(f"COPY ({RECORDS}) TO '{place}/data/r.jsonl' (FORMAT json)", given)
    homes = {True: place / "with", False: place / "without"}
    for measured, home in homes.items():
        (home / "pipelines").mkdir(parents=True)
        (home / "pipelines" / "p.py").write_text(PIPELINE)
        (home / "tallyman.yaml").write_text(f"column_metrics: {str(measured).lower()}\n")
    return homes


def seconds(project: tm.Project, case: str) -> float:
    shutil.rmtree(project.settings.state_folder / "doors", ignore_errors=True)
    result = project.run([case], force=True)
    assert result.exit_code == 0, result
    assert bool(result.assets[0].column_metrics) == project.settings.column_metrics
    return result.assets[0].duration_ms / 1000


def measure(records: int, repeats: int) -> list[dict[str, object]]:
    taken: dict[tuple[str, bool], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tallyman-bench-") as place, ExitStack() as opened:
        homes = make_projects(Path(place), records)
        projects = {m: opened.enter_context(tm.Project.open(home)) for m, home in homes.items()}
        for number in range(repeats + 1):
            for case in CASES:
                for measured in (False, True) if number % 2 else (True, False):
                    each = seconds(projects[measured], case)
                    if number:  # the first of each compiles
                        taken.setdefault((case, measured), []).append(each)
    found: list[dict[str, object]] = []
    for case in CASES:
        with_, without = taken[case, True], taken[case, False]
        ratio = statistics.median(w / o for w, o in zip(with_, without, strict=True))
        medians = {"seconds": statistics.median(with_), "without": statistics.median(without)}
        found.append({"case": case, **medians, "ratio": round(ratio, 3)})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    results = measure(given.records, given.repeats)
    cores = os.cpu_count()
    print(f"{given.records:,} records, median of {given.repeats}, {cores} cores, load {load:.1f}")
    for row in results:
        print("{case:<6} {seconds:>7.2f} s   without {without:>7.2f} s   {ratio}".format(**row))
    facts = {"machine": platform.machine(), "cores": cores, "load": load}
    facts |= {"records": given.records, "repeats": given.repeats, "results": results}
    facts["date"] = f"{datetime.now(UTC):%Y-%m-%d}"
    place = Path(__file__).parent / "results" / "column_metrics.json"
    place.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
