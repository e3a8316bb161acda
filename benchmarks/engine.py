"""What accounting costs next to the plain PySpark job: ratios within one process, medians.

    make bench ARGS="--records 4000000 --repeats 5"

(a) plain PySpark writing only the aggregate, (b) Tallyman with evidence="digest",
(c) Tallyman with evidence="keys"; interleaved, from Parquet and from JSON lines.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tallyman as tm

SCHEMA = (
    "segment_id string, status string, origin string, destination string, flight_date date, "
    "carrier string, price decimal(10,2), taxes decimal(10,2), distance_km int, customer string, "
    "fare_class string, booked_at timestamp"
)
PIPELINE = f'''
import tallyman as tm

airports = tm.source("airports", path="data/airports", format="parquet", key="code")
from_parquet = tm.source("from_parquet", path="data/parquet", format="parquet", key="segment_id",
                         schema="{SCHEMA}")
from_json = tm.source("from_json", path="data/json", format="json", key="segment_id",
                      schema="{SCHEMA}")

def revenue(segments, airports):
    return (segments
        .expect("positive_price", "price > 0")
        .filter("status = 'FLOWN'")
        .join(airports, "origin = code")
        .withColumn("revenue", "price + taxes")
        .groupBy("flight_date", "carrier").agg(total="sum(revenue)", segments="count(*)"))

@tm.asset(key=["flight_date", "carrier"])
def parquet(from_parquet, airports):
    return revenue(from_parquet, airports)

@tm.asset(key=["flight_date", "carrier"])
def json(from_json, airports):
    return revenue(from_json, airports)
'''


def make_data(spark: SparkSession, folder: Path, records: int) -> None:
    """12 columns, about 3 % not flown, 0.2 % with a negative price, 300 airports, 640 groups."""
    codes = [(f"A{i:03d}", f"City {i}") for i in range(300)]
    spark.createDataFrame(codes, "code string, city string").coalesce(1).write.parquet(
        str(folder / "airports")
    )
    number, one = F.col("id"), lambda seed: F.rand(seed)
    rows = spark.range(0, records, 1, 8).select(
        F.format_string("SEG%010d", number).alias("segment_id"),
        F.when(one(1) < 0.97, "FLOWN").otherwise("NOSHOW").alias("status"),
        F.format_string("A%03d", (one(3) * 300).cast("int")).alias("origin"),
        F.format_string("A%03d", (one(4) * 300).cast("int")).alias("destination"),
        F.date_add(F.lit("2024-01-15").cast("date"), (one(5) * 32).cast("int")).alias(
            "flight_date"
        ),
        F.format_string("K%02d", (one(6) * 20).cast("int")).alias("carrier"),
        F.when(one(7) < 0.002, F.lit(-50.0))
        .otherwise(F.round(one(8) * 900 + 20, 2))
        .cast("decimal(10,2)")
        .alias("price"),
        F.round(one(9) * 90, 2).cast("decimal(10,2)").alias("taxes"),
        (one(10) * 9000 + 100).cast("int").alias("distance_km"),
        F.substring(F.sha2(number.cast("string"), 256), 1, 16).alias("customer"),
        F.concat(F.lit("Y"), (one(11) * 8).cast("int")).alias("fare_class"),
        F.timestamp_seconds(F.lit(1704067200) + (one(12) * 864000).cast("int")).alias("booked_at"),
    )
    rows.write.parquet(str(folder / "parquet"))
    spark.read.parquet(str(folder / "parquet")).write.json(str(folder / "json"))


def plain(spark: SparkSession, data: Path, kind: str, out: Path) -> None:
    reader = spark.read.schema(SCHEMA)
    rows: DataFrame = (
        reader.parquet(str(data / kind)) if kind == "parquet" else reader.json(str(data / kind))
    )
    airports = spark.read.parquet(str(data / "airports"))
    flown = rows.where("price > 0").where("status = 'FLOWN'")
    joined = flown.join(airports, F.col("origin") == F.col("code"))
    revenue = joined.withColumn("revenue", F.expr("price + taxes"))
    total = revenue.groupBy("flight_date", "carrier").agg(
        F.sum("revenue").alias("total"), F.count("*").alias("segments")
    )
    total.write.mode("overwrite").parquet(str(out))


class PeakMemory(threading.Thread):
    """The largest resident size of this process and its JVM, sampled ten times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.done = 0, threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.1):
            self.peak = max(self.peak, sum(map(_resident, [os.getpid(), *_children(os.getpid())])))


def _children(pid: int) -> list[int]:
    try:
        found = [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return found + [grand for child in found for grand in _children(child)]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and p.name[0] not in "._")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--formats", default="parquet,json")
    parser.add_argument("--memory", default="4g", help="driver heap")
    parser.add_argument("--keep", type=Path, help="folder for the data, reused when it is there")
    given = parser.parse_args()
    home = given.keep or Path(tempfile.mkdtemp(prefix="tallyman-bench-"))
    (home / "pipelines").mkdir(parents=True, exist_ok=True)
    (home / "tallyman.yaml").write_text("name: bench\n")
    (home / "pipelines" / "bench.py").write_text(PIPELINE)
    project = tm.Project.open(home, spark_conf={"spark.driver.memory": given.memory})
    if not (home / "data" / "json" / "_SUCCESS").exists():
        make_data(project.spark, home / "data", given.records)
    watch = PeakMemory()
    watch.start()
    results = [measure(project, home, kind, given.repeats) for kind in given.formats.split(",")]
    watch.done.set()
    report(given, results, watch.peak)
    if not given.keep:
        shutil.rmtree(home)


def measure(project: tm.Project, home: Path, kind: str, repeats: int) -> dict[str, object]:
    times: dict[str, list[float]] = {"plain": [], "digest": [], "keys": []}
    evidence = {}
    for round_ in range(repeats + 1):
        for name, taken in times.items():
            started = time.perf_counter()
            if name == "plain":
                plain(project.spark, home / "data", kind, home / "plain")
            else:
                result = project.run(kind, evidence=name, thresholds="permissive", force=True)
                assert result.exit_code == 0, result.to_json()
            if round_:  # the first round warms up
                taken.append(time.perf_counter() - started)
            if name != "plain":
                folder = home / result.folder
                evidence[name] = size(folder / kind / "adjoint") + size(folder / kind / "errors")
                shutil.rmtree(home / "runs")
    base = statistics.median(times["plain"])
    data = size(home / "data" / kind)
    return {
        "format": kind,
        "input_bytes": data,
        "seconds": {n: round(statistics.median(t), 3) for n, t in times.items()},
        "ratio": {n: round(statistics.median(t) / base, 2) for n, t in times.items()},
        "evidence_share": {n: round(b / data, 4) for n, b in evidence.items()},
        "all_seconds": {n: [round(s, 3) for s in t] for n, t in times.items()},
    }


def report(given: argparse.Namespace, results: list[dict], peak: int) -> None:  # type: ignore[type-arg]
    head = f"{'format':8} {'job':8} {'median s':>9} {'ratio':>6} {'evidence / input':>17}"
    print(f"\n{given.records:,} records, median of {given.repeats}, interleaved in one process")
    print(head)
    for result in results:
        for name, seconds in result["seconds"].items():
            share = result["evidence_share"].get(name)
            shown = f"{share:.1%}" if share is not None else ""
            ratio = result["ratio"][name]
            print(f"{result['format']:8} {name:8} {seconds:9.2f} {ratio:6.2f} {shown:>17}")
    print(f"peak memory of the process and its JVM: {peak / 2**30:.2f} GiB (heap {given.memory})")
    written = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "records": given.records,
        "heap": given.memory,
        "peak_bytes": peak,
        "results": results,
    }
    place = Path(__file__).parent / "results" / f"engine-{given.records}.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
