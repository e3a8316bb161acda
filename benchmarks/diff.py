"""How long the difference between two versions takes, against just reading them.

    .venv/bin/python benchmarks/diff.py --rows 1000000

Two versions of eight columns each, in files of 250,000 rows: 1 % of the rows changed, 1 % removed,
1 % added. Reading means that DuckDB counts the values of every column of both sides. Each time is
the median of the repeats; the ratio is between times of one run, so it holds on other machines.
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

from tallyman.query.diff.diff import Difference, diff

ROWS_PER_FILE = 250_000
VERSION = """
    SELECT
        i AS id,
        'customer ' || (hash(i) % 100_000) AS customer,
        (hash(i, 1) % 1_000_000 / 100)::DECIMAL(12, 2) + if(i % 100 = $changed, 1, 0) AS amount,
        (hash(i, 2) % 1000) / 7 AS weight,
        TIMESTAMP '2025-01-01' + to_seconds(i::BIGINT) AS sold_at,
        CASE WHEN i % 10 <> 0 THEN 'note ' || md5(i::VARCHAR) END AS note,
        [i % 7, i % 11] AS tags,
        {'city': 'city ' || (i % 500), 'zip': i % 99_999} AS address
    FROM range($first, $last) AS r(i)
    WHERE i % 100 <> $missing
"""
NEVER = -1


def write(folder: Path, rows: int, *, changed: int, missing: int) -> list[str]:
    folder.mkdir()
    files = []
    with duckdb.connect() as connection:
        for first in range(0, rows, ROWS_PER_FILE):
            last = min(rows, first + ROWS_PER_FILE)
            given = {"first": first, "last": last, "changed": changed, "missing": missing}
            files.append(str(folder / f"part-{first}.parquet"))
            connection.execute(f"COPY ({VERSION}) TO '{files[-1]}'", given)
    return files


def read(files: list[str]) -> None:
    with duckdb.connect() as connection:
        connection.execute("SELECT count(COLUMNS(*)) FROM read_parquet($files)", {"files": files})
        connection.fetchall()


def timed(work: Callable[[], object], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def measure(rows: int, repeats: int) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="tallyman-bench-") as place:
        before = write(Path(place) / "before", rows, changed=NEVER, missing=1)
        after = write(Path(place) / "after", rows, changed=3, missing=2)
        found: Difference = diff(before, after, key=["id"])
        reading = timed(lambda: read([*before, *after]), repeats)
        by_key = timed(lambda: diff(before, after, key=["id"]), repeats)
        by_row = timed(lambda: diff(before, after, key=[]), repeats)
    differ = found.added + found.removed + found.changed
    assert differ == rows // 100 * 3, found
    return [
        {"work": work, "seconds": round(seconds, 2), "ratio": round(seconds / reading, 1)}
        for work, seconds in (
            ("read both sides", reading),
            ("diff by key", by_key),
            ("diff of whole rows", by_row),
        )
    ]


def report(results: list[dict[str, object]], rows: int, repeats: int, load: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{rows:,} rows on each side, median of {repeats}, load before {load:.1f}")
    print(f"{'work':20} {'seconds':>8} {'× reading':>10}")
    for r in results:
        print(f"{r['work']:20} {r['seconds']:8} {r['ratio']:10}")
    print(f"peak memory of the whole process {peak:,} MB")
    written = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "load_before": round(load, 1),  # of other work: beyond the cores, times are too long
        "repeats": repeats,
        "rows": rows,
        "peak_mb": peak,
        "results": results,
    }
    place = Path(__file__).parent / "results" / f"diff-{rows}.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(written, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    report(measure(given.rows, given.repeats), given.rows, given.repeats, load)


if __name__ == "__main__":
    main()
