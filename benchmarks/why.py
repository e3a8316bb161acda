"""How long it takes to say why one aggregate row is as it is, over millions of source records.

    .venv/bin/python benchmarks/why.py --records 2000000

One asset groups the records by day, 32 days; `why` of one day names step and records behind it,
counts them per file and shows the first twenty, and checks by hash that the source is what the run
read. Evidence is stored keys. Timed in process, database and project open, median of the repeats;
reading means that DuckDB counts the keys of the source. No Spark is started by `why`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb

import tallyman as tm

FILES = 4
TARGET_S = 1.0
PIPELINE = """\
import tallyman as tm

SCHEMA = "id string, day date, status string, carrier string, price decimal(10,2)"
from_parquet = tm.source("from_parquet", path="data/parquet", format="parquet", key="id",
                         schema=SCHEMA)
from_json = tm.source("from_json", path="data/json", format="json", key="id", schema=SCHEMA)


def daily(records):
    return records.filter("status = 'FLOWN'").groupBy("day").agg(total="sum(price)", n="count(*)")


@tm.asset(key="day")
def parquet(from_parquet):
    return daily(from_parquet)


@tm.asset(key="day", name="json")
def of_json(from_json):
    return daily(from_json)
"""
RECORDS = """
    SELECT printf('S-%08d', i) AS id, DATE '2025-01-01' + (i % 32)::INTEGER AS day,
           if(i % 50 = 7, 'CANCELLED', 'FLOWN') AS status, 'C' || (i % 25) AS carrier,
           (i % 50000 / 100)::DECIMAL(10, 2) AS price
    FROM range($first, $last) AS r(i)
"""


def make_project(home: Path, records: int) -> None:
    (home / "pipelines").mkdir(parents=True)
    (home / "pipelines" / "p.py").write_text(PIPELINE)
    (home / "tallyman.yaml").write_text("name: why\n")
    step = records // FILES
    with duckdb.connect() as connection:
        for kind in ("parquet", "json"):
            (home / "data" / kind).mkdir(parents=True)
            for number in range(FILES):
                given = {"first": number * step, "last": (number + 1) * step}
                path = home / "data" / kind / f"part-{number}.{kind}"
                connection.execute(f"COPY ({RECORDS}) TO '{path}' (FORMAT {kind})", given)


def timed(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Medians of seconds on the clock, and of the processor's: those of all threads together."""
    taken, used = [], []
    for _ in range(repeats):
        started, before = time.perf_counter(), time.process_time()
        work()
        taken.append(time.perf_counter() - started)
        used.append(time.process_time() - before)
    return statistics.median(taken), statistics.median(used)


def read(home: Path, kind: str) -> None:
    with duckdb.connect() as connection:
        files = str(home / "data" / kind / "*")
        connection.execute(f"SELECT count(DISTINCT id) FROM read_{kind}($files)", {"files": files})
        connection.fetchall()


def measure(records: int, repeats: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="tallyman-bench-") as place:
        home = Path(place)
        make_project(home, records)
        with tm.Project.open(home) as project:
            result = project.run()
            assert result.exit_code == 0, result
            for kind in ("parquet", "json"):
                day = {"day": "2025-01-08"}
                [hop] = project.why(kind, day).hops
                assert sum(hop.inputs[0].files.values()) == hop.records, hop
                seconds, cpu = timed(lambda kind=kind, day=day: project.why(kind, day), repeats)
                reading, _ = timed(lambda kind=kind: read(home, kind), repeats)
                found.append(
                    {
                        "source": kind,
                        "behind_the_row": hop.records,
                        "seconds": round(seconds, 2),
                        "cpu_seconds": round(cpu, 2),
                        "reading_seconds": round(reading, 2),
                        "ratio": round(seconds / reading, 1),
                    }
                )
    return found


def report(results: list[dict[str, object]], records: int, repeats: int, load: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{records:,} records, median of {repeats}, load before {load:.1f}, target {TARGET_S} s")
    print(f"{'source':8} {'behind':>8} {'why s':>8} {'cpu s':>8} {'read s':>8} {'× reading':>10}")
    for r in results:
        print(
            f"{r['source']:8} {r['behind_the_row']:8} {r['seconds']:8} {r['cpu_seconds']:8} "
            f"{r['reading_seconds']:8} {r['ratio']:10}"
        )
    written = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "load_before": round(load, 1),  # of other work: beyond the cores, times are too long
        "repeats": repeats,
        "records": records,
        "target_seconds": TARGET_S,
        "peak_mb": peak,
        "results": results,
    }
    place = Path(__file__).parent / "results" / f"why-{records}.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(written, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    report(measure(given.records, given.repeats), given.records, given.repeats, load)


if __name__ == "__main__":
    main()
