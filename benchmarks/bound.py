"""What manifest, seal and lineage cost: their share of the engine benchmark's run, within one run.

    .venv/bin/python benchmarks/bound.py --records 4000000 --repeats 5

Every function that binds, seals or tells is timed where the run calls it; what they hand to each
other is counted once. Events go to a collector on this machine, so that sending is part of it.
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
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import tallyman as tm
from engine import PIPELINE, make_data
from tallyman.control.delivery.send import Sender
from tallyman.control.openlineage.files import Emitter
from tallyman.control.run import execute as running
from tallyman.registry.seals import Seals
from tallyman.registry.spool import Spool

LIMIT = 0.05
taken: dict[str, float] = defaultdict(float)
inside = threading.local()


def timed(owner: Any, name: str, part: str) -> None:
    """Replaces it by itself with a watch; what it calls of the others is counted with it."""
    found: Callable[..., Any] = getattr(owner, name)

    @wraps(found)
    def watched(*given: Any, **named: Any) -> Any:
        if getattr(inside, "counted", False):
            return found(*given, **named)
        inside.counted, started = True, time.perf_counter()
        try:
            return found(*given, **named)
        finally:
            taken[part] += time.perf_counter() - started
            inside.counted = False

    setattr(owner, name, watched)


def watch_all() -> None:
    for name in ("bind", "config_file", "manifest_of"):
        timed(running, name, "manifest")
    for name in ("seal_of", "place"):
        timed(running, name, "seal")
    timed(Seals, "add", "seal")
    for name in ("begun", "started", "ended", "closed", "record"):
        timed(Emitter, name, "lineage")
    timed(Spool, "add", "lineage")
    timed(Sender, "close", "lineage")


class Collector(BaseHTTPRequestHandler):
    received = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Collector.received += 1
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="folder for the data, reused when it is there")
    given = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["OPENLINEAGE_URL"] = f"http://127.0.0.1:{server.server_address[1]}"
    home = given.keep or Path(tempfile.mkdtemp(prefix="tallyman-bench-"))
    (home / "pipelines").mkdir(parents=True, exist_ok=True)
    (home / "tallyman.yaml").write_text("name: bench\n")
    (home / "pipelines" / "bench.py").write_text(PIPELINE)
    project = tm.Project.open(home)
    if not (home / "data" / "json" / "_SUCCESS").exists():
        make_data(project.spark, home / "data", given.records)
    watch_all()
    report(given, [measure(project, home, kind, given.repeats) for kind in ("parquet", "json")])
    if not given.keep:
        shutil.rmtree(home)


def measure(project: tm.Project, home: Path, kind: str, repeats: int) -> dict[str, Any]:
    rounds: list[dict[str, float]] = []
    for round_ in range(repeats + 1):
        taken.clear()
        started = time.perf_counter()
        result = project.run(kind, evidence="keys", thresholds="permissive", force=True)
        whole = time.perf_counter() - started
        assert result.exit_code == 0, result.to_json()
        if round_:  # the first round warms up
            rounds.append({"run": whole, **taken})
        shutil.rmtree(home / "runs")
    shares = [(sum(r.values()) - r["run"]) / r["run"] for r in rounds]
    parts = ("run", "manifest", "seal", "lineage")
    return {
        "format": kind,
        "seconds": {p: round(statistics.median(r[p] for r in rounds), 3) for p in parts},
        "share": round(statistics.median(shares), 4),
        "all_shares": [round(share, 4) for share in shares],
    }


def report(given: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    print(f"\n{given.records:,} records, evidence keys, median of {given.repeats}")
    print(f"{'format':8} {'run s':>8} {'manifest':>9} {'seal':>7} {'lineage':>8} {'share':>7}")
    for result in results:
        s = result["seconds"]
        parts = f"{s['manifest']:9.3f} {s['seal']:7.3f} {s['lineage']:8.3f}"
        print(f"{result['format']:8} {s['run']:8.2f} {parts} {result['share']:7.1%}")
    print(f"asked for: at most {LIMIT:.0%}; events received: {Collector.received}")
    written = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "records": given.records,
        "results": results,
    }
    place = Path(__file__).parent / "results" / f"bound-{given.records}.json"
    place.write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
