"""What comparing a version's files with their recorded sha256 costs, next to reading them.

    .venv/bin/python benchmarks/read_check.py --rows 1000 100000 1000000 10000000

Milliseconds of CPU, all threads together, so that a busy machine does not matter; the files are in
the system's cache. `check` is what the first reader of a process pays, `again` every later one.
`first_20` is `tallyman read` without the check, `one_column` a sum by DuckDB, the cheapest question
that touches every row, and `all` reads every column with page checksums, as mutations do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from pyarrow import parquet as pq

from tallyman.engine.files import listing as hashing
from tallyman.engine.files.intact import Expected, check
from tallyman.engine.files.listing import sha256

ROW = (
    "i AS id, 'customer ' || hash(i) AS name, (hash(i + 1) % 1000000)::DECIMAL(18, 2) AS amount, "
    "DATE '2026-01-01' + (i % 365)::INT AS day, md5(i::VARCHAR) AS note"
)


def write(folder: Path, rows: int, files: int) -> list[Expected]:
    found = []
    with duckdb.connect() as connection:
        for number in range(files):
            path = folder / f"part-{number:05d}.parquet"
            some = f"range({number * rows // files}, {(number + 1) * rows // files}) r(i)"
            connection.execute(f"COPY (SELECT {ROW} FROM {some}) TO '{path}'")
            size, digest = path.stat().st_size, sha256(str(path))
            found.append(Expected(str(path), path.name, digest, size, rows // files))
    return found


def first_twenty(files: list[Expected]) -> None:
    with pq.ParquetFile(files[0].path, page_checksum_verification=True) as file:
        next(file.iter_batches(20)).to_pylist()


def all_rows(files: list[Expected]) -> None:
    for file in files:
        pq.ParquetFile(file.path, page_checksum_verification=True).read()


def one_column(files: list[Expected]) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "SELECT sum(amount) FROM read_parquet($files)", {"files": [f.path for f in files]}
        ).fetchall()


def first_check(files: list[Expected]) -> None:
    hashing._hashed.clear()
    check("bench", files)


def took(work: Callable[[list[Expected]], None], files: list[Expected], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work(files)
        times.append(time.process_time() - started)
    return statistics.median(times) * 1000


def measured(rows: int, files: int, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        listed = write(Path(folder), rows, files)
        megabytes = sum(file.bytes for file in listed) / 1e6
        checked = took(first_check, listed, repeats)
        return {
            "rows": rows,
            "files": files,
            "mb": round(megabytes, 2),
            "check_ms": round(checked, 2),
            "gb_per_s": round(megabytes / checked, 2),
            "again_ms": round(took(lambda some: check("bench", some), listed, repeats), 3),
            "first_20_ms": round(took(first_twenty, listed, repeats), 2),
            "one_column_ms": round(took(one_column, listed, repeats), 2),
            "all_ms": round(took(all_rows, listed, repeats), 2),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    load = round(os.getloadavg()[0], 1)
    results = [measured(rows, asked.files, asked.repeats) for rows in asked.rows]
    names = list(results[0])
    print("  ".join(f"{name:>13}" for name in names))
    for one in results:
        print("  ".join(f"{one[name]:>13,}" for name in names))
    if asked.out:
        facts = {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "load_before": load,
            "repeats": asked.repeats,
            "results": results,
        }
        asked.out.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
