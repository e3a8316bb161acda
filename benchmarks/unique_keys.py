"""What it costs to count the keys of an output, next to the same asset with unique=False.

    .venv/bin/python benchmarks/unique_keys.py --records 1000000

Three assets read a Parquet source. `counted` has a key that is not the source's,
so that its keys are counted in the run; `known` has the source's key, and `grouped` what it is
grouped by, so that nothing is counted; each runs in turn with and without `unique=False`, in one
Spark session. Seconds of the asset alone, median of the repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import duckdb

import tallyman as tm

PIPELINE = """\
import tallyman as tm

records = tm.source("records", path="data", format="parquet", key="id",
                    schema="id string, code string, day date, price decimal(10,2)")


def declare(name, key, plan):
    tm.asset(plan, name=name, key=key)
    tm.asset(plan, name=f"{name}_unchecked", key=key, unique=False)


declare("counted", "code", lambda records: records.withColumn("twice", "price * 2"))
declare("known", "id", lambda records: records.withColumn("twice", "price * 2"))
declare("grouped", "day", lambda records: records.groupBy("day").agg(total="sum(price)"))
"""
RECORDS = """
    SELECT printf('S-%08d', i) AS id, printf('%08x', i * 7919 % 4294967296) AS code,
           DATE '2025-01-01' + (i % 32)::INTEGER AS day,
           (i % 50000 / 100)::DECIMAL(10, 2) AS price
    FROM range($records) AS r(i)
"""
CASES = ("counted", "known", "grouped")


def make_project(home: Path, records: int) -> None:
    (home / "pipelines").mkdir(parents=True)
    (home / "pipelines" / "p.py").write_text(PIPELINE)
    (home / "tallyman.yaml").write_text("name: unique_keys\n")
    (home / "data").mkdir()
    with duckdb.connect() as connection:
        path = home / "data" / "records.parquet"
        connection.execute(
            f"COPY ({RECORDS}) TO '{path}' (ROW_GROUP_SIZE 100000)", {"records": records}
        )


def seconds(project: tm.Project, asset: str) -> float:
    result = project.run([asset], force=True)
    assert result.exit_code == 0, result
    return result.assets[0].duration_ms / 1000


def measure(records: int, repeats: int) -> list[dict[str, object]]:
    taken: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tallyman-bench-") as place:
        make_project(Path(place), records)
        with tm.Project.open(Path(place)) as project:
            for number in range(repeats + 1):
                for asset in (name + end for name in CASES for end in ("", "_unchecked")):
                    each = seconds(project, asset)
                    if number:  # the first of each compiles
                        taken.setdefault(asset, []).append(each)
    found: list[dict[str, object]] = []
    for name in CASES:
        checked, plain = (statistics.median(taken[name + end]) for end in ("", "_unchecked"))
        ratio = round(checked / plain, 3)
        found.append({"asset": name, "seconds": checked, "unchecked": plain, "ratio": ratio})
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
        print(
            "{asset:<10} {seconds:>7.2f} s   unchecked {unchecked:>7.2f} s   {ratio}".format(**row)
        )
    facts = {"machine": platform.machine(), "cores": cores, "load": load}
    facts |= {"records": given.records, "repeats": given.repeats, "results": results}
    facts["date"] = f"{datetime.now(UTC):%Y-%m-%d}"
    place = Path(__file__).parent / "results" / "unique_keys.json"
    place.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
