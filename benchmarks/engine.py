"""What accounting costs next to the plain PySpark job: ratios within one process, medians.

    make bench ARGS="--records 4000000 --repeats 5"

Each kind of job is done (a) with plain PySpark, which writes only the result, (b) by Tallyman with
evidence="digest", (c) with evidence="keys"; interleaved. The kinds: `parquet` and `json` check,
filter, look up and group; `rows` does the same from Parquet without the group; `published` groups
the rows of a published version. `new` is (b) on bytes that no door has measured before.
With `--parts` also what manifest, seal, lineage and publication take of each run by Tallyman.
Next to seconds: processor seconds of this process and the JVM, Spark jobs, and calls into the JVM.
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
from typing import Any

import parts
import psutil
from py4j.java_gateway import GatewayClient
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

def checked(segments, airports):
    return (segments
        .expect("positive_price", "price > 0")
        .filter("status = 'FLOWN'")
        .join(airports, "origin = code")
        .withColumn("revenue", "price + taxes"))

def grouped(rows):
    return rows.groupBy("flight_date", "carrier").agg(total="sum(revenue)", segments="count(*)")

def revenue(segments, airports):
    return grouped(checked(segments, airports))

@tm.asset(key=["flight_date", "carrier"])
def parquet(from_parquet, airports):
    return revenue(from_parquet, airports)

@tm.asset(key=["flight_date", "carrier"])
def json(from_json, airports):
    return revenue(from_json, airports)

@tm.asset(key="segment_id")
def rows(from_parquet, airports):
    return checked(from_parquet, airports)

@tm.asset(key=["flight_date", "carrier"])
def published(rows):
    return grouped(rows)
'''
KINDS = ("parquet", "json", "rows", "published")
MODES = ("plain", "new", "digest", "keys")


def make_data(spark: SparkSession, folder: Path, records: int) -> None:
    make_airports(spark, folder)
    make_rows(spark, records).write.parquet(str(folder / "parquet"))
    spark.read.parquet(str(folder / "parquet")).write.json(str(folder / "json"))


def make_airports(spark: SparkSession, folder: Path) -> None:
    codes = [(f"A{i:03d}", f"City {i}") for i in range(300)]
    spark.createDataFrame(codes, "code string, city string").coalesce(1).write.parquet(
        str(folder / "airports")
    )


def make_rows(spark: SparkSession, records: int, files: int = 8) -> DataFrame:
    """12 columns, about 3 % not flown, 0.2 % with a negative price, 300 airports, 640 groups."""
    number, one = F.col("id"), lambda seed: F.rand(seed)
    return spark.range(0, records, 1, files).select(
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


def plain(
    spark: SparkSession, home: Path, kind: str, out: Path, input_: Path | None = None
) -> None:
    if kind == "published":
        rows = spark.read.parquet(str(home / "published"))
    else:
        form = _form(kind)
        rows = checked(spark, home / "data", form, input_ or home / "data" / form)
    if kind != "rows":
        rows = rows.groupBy("flight_date", "carrier").agg(
            F.sum("revenue").alias("total"), F.count("*").alias("segments")
        )
    rows.write.mode("overwrite").parquet(str(out))


def checked(spark: SparkSession, data: Path, form: str, input_: Path) -> DataFrame:
    rows = spark.read.schema(SCHEMA).format(form).load(str(input_))
    airports = spark.read.parquet(str(data / "airports"))
    flown = rows.where("price > 0").where("status = 'FLOWN'")
    joined = flown.join(airports, F.col("origin") == F.col("code"))
    return joined.withColumn("revenue", F.expr("price + taxes"))


class PeakMemory(threading.Thread):
    """The largest resident size of this process and its JVM, sampled ten times a second: together,
    and each of the two.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.done = 0, threading.Event()
        self.python = self.java = 0

    def run(self) -> None:
        while not self.done.wait(0.1):
            here, java = _resident(os.getpid()), sum(map(_resident, _children(os.getpid())))
            self.peak = max(self.peak, here + java)
            self.python, self.java = max(self.python, here), max(self.java, java)

    def begin(self) -> None:
        """Forget the peaks so far."""
        self.peak = self.python = self.java = 0


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


class Meter:
    """Seconds, processor seconds, Spark jobs and calls into the JVM, between two readings."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = spark.sparkContext._jsc.sc()  # the benchmark may look where the engine may not
        self.calls = 0
        send = GatewayClient.send_command

        def counted(client: GatewayClient, *given: object, **named: object) -> object:
            self.calls += 1
            return send(client, *given, **named)

        GatewayClient.send_command = counted

    def read(self) -> dict[str, float]:
        calls = self.calls
        jobs = self._jvm.dagScheduler().numTotalJobs()
        self.calls = calls
        me = psutil.Process()
        spent = sum(sum(one.cpu_times()[:4]) for one in (me, *me.children(recursive=True)))
        return {"seconds": time.perf_counter(), "cpu": spent, "jobs": jobs, "calls": calls}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--memory", default="4g", help="driver heap")
    parser.add_argument("--keep", type=Path, help="folder for the data, reused when it is there")
    parser.add_argument("--parts", action="store_true", help="time the parts of a run")
    given = parser.parse_args()
    home = given.keep or Path(tempfile.mkdtemp(prefix="tallyman-bench-"))
    (home / "pipelines").mkdir(parents=True, exist_ok=True)
    (home / "tallyman.yaml").write_text("name: bench\n")
    (home / "pipelines" / "bench.py").write_text(PIPELINE)
    project = tm.Project.open(home, spark_conf={"spark.driver.memory": given.memory})
    if not (home / "data" / "json" / "_SUCCESS").exists():
        make_data(project.spark, home / "data", given.records)
    if "published" in given.kinds and not (home / "published").exists():
        plain(project.spark, home, "rows", home / "published")
        result = project.run("rows", thresholds="permissive", force=True)
        assert result.exit_code == 0, result.to_json()
    if given.parts:
        parts.watch()
    watch, meter = PeakMemory(), Meter(project.spark)
    watch.start()
    load = os.getloadavg()[0]
    modes = given.modes.split(",")
    results = [
        measure(project, meter, home, kind, modes, given.repeats) for kind in given.kinds.split(",")
    ]
    watch.done.set()
    report(given, results, watch.peak, load)
    if not given.keep:
        shutil.rmtree(home)


def measure(
    project: tm.Project, meter: Meter, home: Path, kind: str, modes: list[str], repeats: int
) -> dict[str, object]:
    taken: dict[str, list[dict[str, float]]] = {mode: [] for mode in modes}
    evidence = {}
    for round_ in range(repeats + 1):
        for mode in modes:
            if mode == "new":
                shutil.rmtree(home / ".tallyman" / "doors", ignore_errors=True)
            parts.taken.clear()
            before = meter.read()
            if mode == "plain":
                plain(project.spark, home, kind, home / "plain")
            else:
                kept = "digest" if mode == "new" else mode
                result = project.run(kind, evidence=kept, thresholds="permissive", force=True)
                assert result.exit_code == 0, result.to_json()
            after = meter.read()
            if round_:  # the first round warms up
                spent = {name: after[name] - before[name] for name in after}
                taken[mode].append(spent | parts.taken)
            if mode in ("digest", "keys"):
                folder = home / result.folder
                evidence[mode] = size(folder / kind / "adjoint") + size(folder / kind / "errors")
            if mode != "plain":
                shutil.rmtree(home / "runs")
    data = size(home / "published") if kind == "published" else size(home / "data" / _form(kind))
    middle = {
        mode: {name: statistics.median(one[name] for one in each) for name in each[0]}
        for mode, each in taken.items()
    }
    return {
        "kind": kind,
        "input_bytes": data,
        "medians": {m: {n: round(v, 3) for n, v in each.items()} for m, each in middle.items()},
        "ratio": {
            mode: {n: round(each[n] / middle["plain"][n], 2) for n in ("seconds", "cpu")}
            for mode, each in middle.items()
        },
        "evidence_share": {n: round(b / data, 4) for n, b in evidence.items()},
        "all_seconds": {
            mode: [round(one["seconds"], 3) for one in each] for mode, each in taken.items()
        },
    }


def _form(kind: str) -> str:
    return "json" if kind == "json" else "parquet"


def report(
    given: argparse.Namespace, results: list[dict[str, Any]], peak: int, load: float
) -> None:
    print(f"\n{given.records:,} records, median of {given.repeats}, interleaved in one process")
    print(
        f"{'kind':10} {'job':8} {'s':>7} {'ratio':>6} {'cpu s':>7} {'ratio':>6} {'jobs':>5}"
        f" {'calls':>6} {'evidence / input':>17}"
    )
    for result in results:
        for mode, each in result["medians"].items():
            share, ratio = result["evidence_share"].get(mode), result["ratio"][mode]
            print(
                f"{result['kind']:10} {mode:8} {each['seconds']:7.2f} {ratio['seconds']:6.2f}"
                f" {each['cpu']:7.2f} {ratio['cpu']:6.2f} {each['jobs']:5.0f} {each['calls']:6.0f}"
                f" {f'{share:.1%}' if share is not None else '':>17}"
            )
            shares = {n: each[n] / each["seconds"] for n in parts.PARTS if n in each}
            if shares:
                print(f"{'':10} {', '.join(f'{n} {s:.1%}' for n, s in shares.items())}")
    print(f"peak memory of the process and its JVM: {peak / 2**30:.2f} GiB (heap {given.memory})")
    written = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, load {load:.1f} at the start",
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
