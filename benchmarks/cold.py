"""The demo on a machine where nothing runs yet, next to the same job as a plain PySpark script.

    .venv/bin/python benchmarks/cold.py --repeats 3 --save

Each is one command in a process of its own, in turns: (plain) a script that reads, filters, joins,
groups and writes, with Spark's own settings; (first) `tallyman run` in a new project, which also
makes its database; (again) `tallyman run --force` in a project that has one, stopped. With
`--archive DIR`, (first) and (again) find Java's archive of Spark's classes in DIR, made there if
needed, as after `tallyman doctor --fix`; otherwise there is none.
Processor seconds are of the command and of everything it starts, Java and PostgreSQL included.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from tallyman.cli.start.demo_data import write_airline

PLAIN = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[*]").getOrCreate()
segments = spark.read.schema(
    "segment_id string, flight_date date, status string, airline string, "
    "ticket_price decimal(10,2), distance_km int"
).json("data/bookings")
airlines = spark.read.schema("code string, name string").csv("data/reference", header=True)
(
    segments.where("ticket_price > 0").where("distance_km >= 0").where("status = 'FLOWN'")
    .join(airlines, segments.airline == airlines.code)
    .groupBy("flight_date")
    .agg({"ticket_price": "sum", "segment_id": "count"})
    .withColumnsRenamed({"sum(ticket_price)": "revenue", "count(segment_id)": "segments"})
    .write.parquet(sys.argv[1])
)
spark.stop()
"""
TOOL = str(Path(sys.executable).with_name("tallyman"))


def measured(command: list[str], folder: Path, cache: Path) -> dict[str, float]:
    """Run a command; return its wall time and the processor seconds of all its processes."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begun = time.perf_counter()
    with open(folder / "cold.log", "ab") as log:
        child = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        used: dict[tuple[int, float], float] = {}
        while child.poll() is None:
            used |= processor_seconds(child.pid, folder)
            time.sleep(0.1)
    wall = time.perf_counter() - begun
    if child.returncode:
        raise SystemExit(f"{command}: exit {child.returncode}\n{(folder / 'cold.log').read_text()}")
    return {"wall_s": wall, "cpu_s": sum(used.values())}


def processor_seconds(pid: int, folder: Path) -> dict[tuple[int, float], float]:
    """Sample the processes that the command started; PostgreSQL is known by its folder."""
    try:
        own = psutil.Process(pid)
        started = {one.pid: one for one in (own, *own.children(recursive=True))}
    except psutil.NoSuchProcess:
        return {}
    for one in psutil.process_iter(["cmdline", "name"]):
        if str(folder) in " ".join(one.info["cmdline"] or ()):
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since it was listed
                started |= {each.pid: each for each in (one, *one.children(recursive=True))}
    found: dict[tuple[int, float], float] = {}
    for one in started.values():
        try:
            times = one.cpu_times()
            found[one.pid, one.create_time()] = times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return found


def phases(home: Path) -> dict[str, float]:
    """Add up what the last run says about its phases."""
    run = max((home / "runs").iterdir(), key=lambda one: one.stat().st_mtime)
    report = json.loads((run / "processing_report.json").read_text())
    found: dict[str, float] = {}
    for asset in report["assets"]:
        for each in asset.get("timings") or ():
            if "phase" in each:
                name = str(each["phase"])
                found[name] = found.get(name, 0.0) + each["ms"] / 1000
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--archive", type=Path, help="a folder for Java's archive of classes")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="tallyman-cold-") as folder:
        cache = (given.archive or Path(folder) / "cache").absolute()
        if given.archive:
            environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
            subprocess.run([TOOL, "doctor", "--fix"], env=environment, check=False)
        rows, spent = compared(Path(folder), cache, given.repeats)
    report(rows, spent)
    if given.save:
        save(rows, spent, load, given)


def compared(
    folder: Path, cache: Path, repeats: int
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    taken: dict[str, list[dict[str, float]]] = {"plain": [], "first": [], "again": []}
    timings: list[dict[str, float]] = []
    data = folder / "airline"
    write_airline(data)
    script = folder / "plain.py"
    script.write_text(PLAIN)
    for number in range(repeats):
        home = folder / f"project{number}"
        shutil.copytree(data, home)
        plain = [sys.executable, str(script), str(folder / f"plain{number}")]
        taken["plain"].append(measured(plain, home, cache))
        taken["first"].append(measured([TOOL, "run"], home, cache))
        taken["again"].append(measured([TOOL, "run", "--force"], home, cache))
        timings.append(phases(home))
    rows = {
        name: {
            kind: round(statistics.median(one[kind] for one in each), 2)
            for kind in ("wall_s", "cpu_s")
        }
        for name, each in taken.items()
    }
    names = dict.fromkeys(name for one in timings for name in one)
    spent = {n: round(statistics.median(o.get(n, 0.0) for o in timings), 2) for n in names}
    return rows, spent


def report(rows: dict[str, dict[str, float]], spent: dict[str, float]) -> None:
    plain = rows["plain"]
    print(f"{'':<8}{'wall s':>9}{'ratio':>7}{'processor s':>13}{'ratio':>7}")
    for name, one in rows.items():
        wall, cpu = one["wall_s"] / plain["wall_s"], one["cpu_s"] / plain["cpu_s"]
        print(f"{name:<8}{one['wall_s']:>9.1f}{wall:>7.2f}{one['cpu_s']:>13.1f}{cpu:>7.2f}")
    listed = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in spent.items())
    print(f"again, by phase: {listed}; the rest is the start of Python, PostgreSQL and Java")


def save(
    rows: dict[str, dict[str, float]], spent: dict[str, float], load: float, given: Any
) -> None:
    kept = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "load_before": round(load, 1),
        "repeats": given.repeats,
        "archive": bool(given.archive),
        "results": rows,
        "phases_again": spent,
    }
    name = "cold-archive.json" if given.archive else "cold.json"
    place = Path(__file__).parent / "results" / name
    place.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
