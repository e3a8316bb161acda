"""What publication costs next to the run it belongs to, and how often each byte is written.

    .venv/bin/python benchmarks/publication.py --records 2000000 --repeats 3

A pass-through asset: every record is in the output. Timed: the whole run; making its files a
fragment (second names, manifest); the commit (metadata, pointers). Bytes: those of the output
Spark wrote, and those of the version; and whether they are the same bytes on the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tallyman as tm
from tallyman.control.run.journal import Journal
from tallyman.control.target.prepare_fragments import PreparedFragments

PIPELINE = """\
import tallyman as tm

events = tm.source("events", path="data/events", format="parquet", key="id")


@tm.asset(key="id")
def kept(events):
    return events.expect("positive", "amount >= 0").withColumn("double", "amount * 2")
"""


@contextmanager
def timed(owner: type, name: str, into: list[float]) -> Iterator[None]:
    """How long each call of a method took."""
    original: Callable[..., Any] = getattr(owner, name)

    def method(*args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            into.append(time.perf_counter() - begun)

    setattr(owner, name, method)
    try:
        yield
    finally:
        setattr(owner, name, original)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "tallyman.yaml").write_text("name: publication\n")
        (home / "pipelines").mkdir()
        (home / "pipelines" / "p.py").write_text(PIPELINE)
        with tm.Project.open(home) as project:
            measured = [measure(project, home, given.records) for _ in range(given.repeats + 1)]
            measured.pop(0)  # the first run compiles everything
    report(given, measured)


def measure(project: tm.Project, home: Path, records: int) -> dict[str, float]:
    stage: list[float] = []
    commit: list[float] = []
    # Equal content is not published again: each time it is other data.
    rows = project.spark.range(records)
    typed = rows.selectExpr("id", "cast(id % 1000 as decimal(12,2)) amount", "uuid() note")
    typed.write.mode("overwrite").parquet(str(home / "data" / "events"))
    with timed(PreparedFragments, "prepare", stage), timed(Journal, "publish", commit):
        begun = time.perf_counter()
        result = project.run(force=True)
        whole = time.perf_counter() - begun
    output = list((home / result.folder / "kept" / "output").glob("*.parquet"))
    found = project.resolve("kept")
    published = [Path(path) for path in project.warehouse.paths(found.fragments)]
    same = {os.stat(path).st_ino for path in output} == {os.stat(p).st_ino for p in published}
    return {
        "run_s": whole,
        "stage_s": sum(stage),
        "commit_s": sum(commit),
        "share": (sum(stage) + sum(commit)) / whole,
        "amplification": sum(p.stat().st_size for p in output)
        / sum(p.stat().st_size for p in published),
        "same_bytes": float(same),
        "bytes": float(sum(p.stat().st_size for p in published)),
    }


def report(given: argparse.Namespace, measured: list[dict[str, float]]) -> None:
    names = list(measured[0])
    middle = {name: statistics.median(one[name] for one in measured) for name in names}
    print(f"{given.records:,} records, median of {given.repeats}")
    print(f"run                        {middle['run_s']:8.2f} s")
    print(f"fragment (names, manifest) {middle['stage_s']:8.3f} s")
    print(f"commit (metadata, rows)    {middle['commit_s']:8.3f} s")
    print(f"share of the run           {middle['share']:8.1%}")
    print(f"written / in the version   {middle['amplification']:8.2f}")
    print(f"the same bytes on disk     {'yes' if middle['same_bytes'] else 'no':>8}")
    results = Path(__file__).parent / "results" / "publication.json"
    results.write_text(
        json.dumps(
            {
                "at": f"{datetime.now(UTC):%Y-%m-%d}",
                "machine": {"cores": os.cpu_count(), "system": platform.machine()},
                "load_before": os.getloadavg()[0],
                "records": given.records,
                "repeats": given.repeats,
                "median": middle,
            },
            indent=2,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
