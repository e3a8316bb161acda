"""Growth without cliffs: time and memory per record, by number of records and by shape of data.

    .venv/bin/python benchmarks/scale.py --sizes 1,4,8,16,32
    .venv/bin/python benchmarks/scale.py --shapes skew,groups,rejected,files,partitions --records 4

Each size and each shape has a process of its own: it makes the data (written by Spark), does the
job with plain PySpark and by Tallyman, interleaved, and removes everything. A shape is measured
next to `regular` data of as many records. Numbers of records are in millions. Peaks of memory are
those of the Python process (the driver) and of the JVM, apart. The rounds are preceded by as many
that warm up as it takes to read `--warm` records. `scale_servers.py` does the same on servers.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tallyman as tm
from engine import PIPELINE, SCHEMA, Meter, PeakMemory, make_airports, make_rows, plain

MILLION = 1_000_000
RESULTS = Path(__file__).parent / "results" / "scale.json"
BY_DAY = f"""
by_day = tm.source("by_day", path="data/days/day={{partition}}", format="parquet",
                   key="segment_id", schema="{SCHEMA}")

@tm.asset(key=["flight_date", "carrier"],
          partitioned_by=tm.daily("flight_date", start="2024-01-15", end="2024-02-15"))
def daily(by_day, airports):
    return revenue(by_day, airports)
"""
DAYS = 32


def _regular(rows: DataFrame) -> DataFrame:
    return rows


def _skew(rows: DataFrame) -> DataFrame:
    """One group with half of the records."""
    there = F.rand(21) < 0.5
    return rows.withColumns(
        {
            "flight_date": F.when(there, F.to_date(F.lit("2024-01-15"))).otherwise(
                F.col("flight_date")
            ),
            "carrier": F.when(there, F.lit("K00")).otherwise(F.col("carrier")),
        }
    )


def _groups(rows: DataFrame) -> DataFrame:
    """32 days and 32,768 carriers: 1 M groups, if there are several times as many records."""
    return rows.withColumn("carrier", F.format_string("K%05d", (F.rand(22) * 32_768).cast("int")))


def _rejected(rows: DataFrame) -> DataFrame:
    """Half of the records break a rule."""
    return rows.withColumn(
        "price", F.when(F.rand(23) < 0.5, -F.col("price")).otherwise(F.col("price"))
    )


@dataclass(frozen=True, slots=True)
class Shape:
    change: Callable[[DataFrame], DataFrame] = _regular
    kinds: tuple[str, ...] = ("parquet",)
    files: int = 8


SHAPES: Mapping[str, Shape] = {
    "regular": Shape(kinds=("parquet", "rows")),
    "skew": Shape(_skew),
    "groups": Shape(_groups),
    "rejected": Shape(_rejected, ("parquet", "rows")),
    "files": Shape(kinds=("parquet", "json"), files=10_000),
    "partitions": Shape(kinds=("daily",)),
}


def make(spark: SparkSession, data: Path, shape: Shape, records: int) -> None:
    make_airports(spark, data)
    rows = shape.change(make_rows(spark, records, shape.files))
    rows.write.parquet(str(data / "parquet"))
    written = spark.read.parquet(str(data / "parquet"))
    if "json" in shape.kinds:
        shape.change(make_rows(spark, records, shape.files)).write.json(str(data / "json"))
    if "daily" in shape.kinds:
        days = written.withColumn("day", F.col("flight_date").cast("string"))
        days.repartition(DAYS, "day").write.partitionBy("day").parquet(str(data / "days"))


def open_project(
    home: Path,
    given: argparse.Namespace,
    master: str | None = None,
    more: Mapping[str, str] | None = None,
    *,
    driver: bool = True,
) -> tm.Project:
    """Open the project of the benchmark; `driver` if Spark's driver is a child of this process."""
    (home / "pipelines").mkdir(parents=True, exist_ok=True)
    (home / "tallyman.yaml").write_text("name: scale\n")
    (home / "pipelines" / "bench.py").write_text(PIPELINE + BY_DAY)
    conf = {"spark.driver.memory": given.memory} if driver else {}
    return tm.Project.open(home, master=master, spark_conf=conf | dict(more or {}))


class Rounds:
    """The rounds of one process: each job in turn, measured after the warm-up."""

    def __init__(self, project: tm.Project, home: Path, given: argparse.Namespace) -> None:
        self.project, self.home, self.given = project, home, given
        self.meter, self.watch = Meter(project.spark), PeakMemory()
        self.watch.start()

    def of(self, kind: str) -> dict[str, dict[str, float]]:
        """Return the medians of each mode."""
        taken: dict[str, list[dict[str, float]]] = {mode: [] for mode in self.given.modes}
        warm = math.ceil(self.given.warm * MILLION / self.given.measure_records)
        for number in range(warm + self.given.repeats):
            for mode in self.given.modes:
                one = self._one(kind, mode)
                if number >= warm:
                    taken[mode].append(one)
        return {
            m: {n: statistics.median(o[n] for o in all_) for n in all_[0]}
            for m, all_ in taken.items()
        }

    def _one(self, kind: str, mode: str) -> dict[str, float]:
        if mode == "new":  # bytes that no door has measured before
            shutil.rmtree(self.home / ".tallyman" / "doors", ignore_errors=True)
        self.watch.begin()
        before = self.meter.read()
        if mode == "plain":
            self._plain(kind)
        else:
            result = run(self.project, kind, "digest" if mode == "new" else mode)
        after = self.meter.read()
        found = {name: after[name] - before[name] for name in after}
        found |= {"python_bytes": self.watch.python, "java_bytes": self.watch.java}
        if mode != "plain":
            found["files"] = sum(p.is_file() for p in (self.home / result.folder).rglob("*"))
            for place in ("runs", "warehouse"):
                shutil.rmtree(self.home / place, ignore_errors=True)
        return found

    def _plain(self, kind: str) -> None:
        spark, out = self.project.spark, self.home / "plain"
        if kind != "daily":
            plain(spark, self.home, kind, out)
            return
        for day in sorted((self.home / "data" / "days").glob("day=*")):
            plain(spark, self.home, kind, out / day.name, day)


def run(project: tm.Project, kind: str, evidence: str) -> Any:
    partition = [f"2024-01-{15 + n}" if n < 17 else f"2024-02-{n - 16:02d}" for n in range(DAYS)]
    result = project.run(
        kind,
        evidence=evidence,
        thresholds={"absolute": 0, "percentage": 1},
        force=True,
        partition=partition if kind == "daily" else None,
    )
    assert result.exit_code == 0, result.to_json()
    return result


def measure(given: argparse.Namespace) -> None:
    """Measure one shape in this process, and print what was found as JSON."""
    home = Path(tempfile.mkdtemp(prefix="tallyman-scale-", dir=given.folder))
    try:
        shape = SHAPES[given.measure]
        project = open_project(home, given)
        make(project.spark, home / "data", shape, given.measure_records)
        rounds = Rounds(project, home, given)
        found = {kind: rounds.of(kind) for kind in shape.kinds}
        project.close()
    finally:
        shutil.rmtree(home)
    print(json.dumps(found))


def measured(given: argparse.Namespace, shape: str, records: int) -> dict[str, Any]:
    """Measure one shape in a process of its own."""
    words = [
        __file__,
        "--measure",
        shape,
        "--measure-records",
        str(records),
        "--memory",
        given.memory,
    ]
    words += [
        "--modes",
        ",".join(given.modes),
        "--repeats",
        str(given.repeats),
        "--warm",
        str(given.warm),
    ]
    words += ["--folder", str(given.folder)] if given.folder else []
    load = round(os.getloadavg()[0], 1)
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{shape}, {records:,} records: exit {done.returncode}")
    kinds = json.loads(done.stdout.splitlines()[-1])
    shown(shape, records, kinds)
    rounded = {
        k: {m: {n: round(v, 3) for n, v in one.items()} for m, one in modes.items()}
        for k, modes in kinds.items()
    }
    return {"shape": shape, "records": records, "load": load, "kinds": rounded}


def shown(shape: str, records: int, kinds: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    for kind, modes in kinds.items():
        for mode, one in modes.items():
            per = {n: one[n] / records * 1e6 for n in ("seconds", "cpu")}
            ratio = one["cpu"] / modes["plain"]["cpu"] if "plain" in modes else 0
            print(
                f"{shape:10} {records / MILLION:5.1f} M {kind:8} {mode:7} {one['seconds']:8.2f} s"
                f" {per['seconds']:6.2f} µs {per['cpu']:6.2f} cpu µs {ratio:6.2f}"
                f" {one['python_bytes'] / 2**20:7.0f} MiB {one['java_bytes'] / 2**20:7.0f} MiB"
                f" {one['jobs']:6.0f} {one['calls']:7.0f} {one.get('files', 0):7.0f}",
                flush=True,
            )


def write(section: str, found: Any) -> None:
    """Put one section into the results; the others stay."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    facts = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "measured": found,
    }
    RESULTS.write_text(json.dumps(known | {section: facts}, indent=2) + "\n")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="", help="millions of records, as in 1,4,8,16,32")
    parser.add_argument("--shapes", default="", help=", ".join(SHAPES))
    parser.add_argument("--records", type=float, default=4, help="of each shape, in millions")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warm", type=float, default=4, help="records read before, in millions")
    parser.add_argument(
        "--modes", default="plain,new,digest,keys", type=lambda text: text.split(",")
    )
    parser.add_argument("--memory", default="4g", help="driver heap")
    parser.add_argument("--folder", type=Path, help="where to put the data; removed afterwards")
    parser.add_argument("--no-results", action="store_true", help="print only")
    parser.add_argument("--measure", choices=SHAPES, help=argparse.SUPPRESS)
    parser.add_argument("--measure-records", type=int, help=argparse.SUPPRESS)
    return parser


def main() -> None:
    given = arguments().parse_args()
    if given.measure:
        measure(given)
        return
    print(
        f"{'shape':10} {'records':>7} {'kind':8} {'job':7} {'time':>10} {'per record':>22}"
        f" {'cpu/plain':>10} {'Python':>11} {'JVM':>11} {'jobs':>6} {'calls':>7} {'files':>7}"
    )
    sizes = [int(float(size) * MILLION) for size in given.sizes.split(",") if size]
    shapes = ["regular", *given.shapes.split(",")] if given.shapes else []
    sections = {
        "sizes": [measured(given, "regular", size) for size in sizes],
        "shapes": [measured(given, shape, int(given.records * MILLION)) for shape in shapes],
    }
    for section, found in sections.items():
        if found and not given.no_results:
            write(section, found)


if __name__ == "__main__":
    main()
