"""Settling by Spark at real size: a cluster of two workers, and Spark Connect.

    PYTHONPATH=. .venv/bin/python benchmarks/scale_servers.py --records 2

Half of the records are rejected and nearly each is a group of its own, so the remainder is far
above what the driver settles itself. The same data is run three times, each in a process of its
own: in this machine's Spark with every limit lifted, so that the driver settles all of it; on a
standalone cluster; over Connect. Each run must balance and pass `verify --exact`; ledgers, digests
and the content of the outputs must be equal. Numbers of records are in millions.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from scale import MILLION, _rejected, open_project, run, write
from tests.spark_servers import free_port, listening, spark_class, start_connect_server
from tests.world.waiting import wait_until

import tallyman as tm
from engine import PeakMemory, make_airports, make_rows
from tallyman.engine.evidence import content, local_writer
from tallyman.engine.evidence.kept import Kept
from tallyman.engine.files import parquet

PLACES = ("driver", "cluster", "connect")
KINDS = {"parquet": ("digest", "keys"), "rows": ("digest",)}


def _own_groups(rows: DataFrame) -> DataFrame:
    """Make nearly each record a group of its own, and reject half of the records."""
    return _rejected(rows).withColumn("carrier", F.col("customer"))


@contextmanager
def cluster(folder: Path, memory: str) -> Iterator[str]:
    """Start a master and two workers; stop them at the end."""
    port, local = free_port(), ("--host", "127.0.0.1", "--webui-port")
    address = f"spark://127.0.0.1:{port}"
    started = [spark_class(folder, "master.Master", *local, str(free_port()), "--port", str(port))]
    try:
        wait_until(lambda: listening(port), 120)
        for number in range(2):
            size = ("-c", "1", "-m", memory, "-d", str(folder / f"worker-{number}"))
            words = (*local, str(free_port()), *size, address)
            started.append(spark_class(folder, "worker.Worker", *words))
        yield address
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def connect(folder: Path) -> Iterator[str]:
    group, address = start_connect_server(folder, 2)
    try:
        yield address
    finally:
        os.killpg(group, signal.SIGKILL)


@contextmanager
def opened(place: str, home: Path, given: argparse.Namespace) -> Iterator[tm.Project]:
    if place == "driver":
        lift_limits()
        yield open_project(home, given)
    elif place == "cluster":
        size = {"spark.executor.memory": "2g", "spark.sql.shuffle.partitions": "8"}
        with cluster(home, "2g") as address:
            yield open_project(home, given, address, size)
    else:
        with connect(home) as address:
            project = open_project(home, given, address, driver=False)
            yield project
            project.spark.stop()  # while its server is there: without one it is asked for long


def lift_limits() -> None:
    """Let this process settle whatever is left, so that the two paths can be compared."""
    parquet.few = lambda *_: True
    parquet.BYTES = sys.maxsize
    parquet.ROWS = local_writer.LETTERS = content.VALUES = sys.maxsize
    Kept.__init__.__defaults__ = (sys.maxsize,)


def measure(given: argparse.Namespace) -> None:
    """Run everything in one place, and print answers, times and memory as JSON."""
    home, found = Path(given.home), {}
    watch = PeakMemory()
    watch.start()
    with opened(given.measure, home, given) as project:
        for kind, each in KINDS.items():
            for evidence in each:
                watch.begin()
                begun = time.perf_counter()
                result = run(project, kind, evidence)
                ran = time.perf_counter() - begun
                peaks = {"python_bytes": watch.python, "java_bytes": watch.java}
                verified = project.verify(result.run_id, exact=True)
                assert verified.verified, verified.to_json()
                assert not verified.reasons, verified.reasons
                spent = {"seconds": ran, "verify_seconds": time.perf_counter() - begun - ran}
                found[f"{kind}/{evidence}"] = {
                    "answers": answers(home / result.folder, kind),
                    "measured": spent | peaks,
                }
    print(json.dumps(found))


def answers(folder: Path, kind: str) -> dict[str, Any]:
    """Return what must be equal in all places: counts, digests, checks, and the output."""
    ledger = json.loads((folder / kind / "ledger.json").read_text())
    [made] = json.loads((folder / "processing_report.json").read_text())["assets"]
    kept = ("input_accounting", "output_accounting", "sub_ledgers", "verification")
    return {name: ledger[name] for name in kept} | {"content": made["content_digest"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=float, default=4, help="in millions")
    parser.add_argument("--memory", default="4g", help="driver heap")
    parser.add_argument("--folder", type=Path, help="where to put the data; removed afterwards")
    parser.add_argument("--no-results", action="store_true", help="print only")
    parser.add_argument("--places", default=",".join(PLACES))
    parser.add_argument("--measure", choices=(*PLACES, "data"), help=argparse.SUPPRESS)
    parser.add_argument("--home", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure == "data":
        make_data(given)
    elif given.measure:
        measure(given)
    else:
        compare(given)


def make_data(given: argparse.Namespace) -> None:
    spark, data = open_project(Path(given.home), given).spark, Path(given.home) / "data"
    make_airports(spark, data)
    rows = _own_groups(make_rows(spark, int(given.records * MILLION)))
    rows.write.parquet(str(data / "parquet"))


def compare(given: argparse.Namespace) -> None:
    home = Path(tempfile.mkdtemp(prefix="tallyman-scale-", dir=given.folder))
    try:
        in_process(given, home, "data")
        found = {place: in_process(given, home, place) for place in given.places.split(",")}
    finally:
        shutil.rmtree(home, ignore_errors=True)
    first = next(iter(found.values()))
    for place, made in found.items():
        for name, one in made.items():
            same = one["answers"] == first[name]["answers"]
            print(place, name, "equal" if same else "DIFFERENT", one["measured"], flush=True)
            assert same, (place, name)
    if not given.no_results:
        measured = {p: {n: one["measured"] for n, one in m.items()} for p, m in found.items()}
        write("servers", {"records": int(given.records * MILLION), "places": measured})


def in_process(given: argparse.Namespace, home: Path, what: str) -> dict[str, Any]:
    words = ["--measure", what, "--home", str(home), "--records", str(given.records)]
    words += ["--memory", given.memory]
    done = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{what}: exit {done.returncode}\n{done.stdout}")
    return json.loads(done.stdout.splitlines()[-1]) if what != "data" else {}


if __name__ == "__main__":
    main()
