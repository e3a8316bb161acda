"""How long questions about lineage take in a history of 100,000 materializations.

    .venv/bin/python benchmarks/lineage.py --repeats 30

200 assets in 20 layers, each reading 2 or 3 of the layer before, the first layer a source. Two
histories: 250 daily partitions of two runs each, and no partitions but 500 runs, in which every
walk meets all of the history. Timed from the call to the list of what was reached.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import psycopg

from tallyman.domain.history.lineage import Reached
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Database
from tallyman.registry.run.lineage import Lineage

LAYERS, WIDTH, RUNS = 20, 10, 500
TARGET_MS = 50
BEGAN = datetime(2025, 1, 1, tzinfo=UTC)
OWNER = Owner("default", "bench")

COPY_RUNS = "COPY runs (id, name, org, project, status, folder, actor, started_at) FROM STDIN"
COPY_MATERIALIZATIONS = """
    COPY materializations (
        id, org, project, asset_name, partition, run_id, status, started_at, completed_at,
        inserted_at, upstream_assets, upstream_partitions, upstream_ids,
        definition_hash, dependency_hash, content_digest, location
    ) FROM STDIN
"""
Ask = Callable[[Lineage], list[Reached]]


@dataclass(frozen=True)
class Question:
    name: str
    ask: Ask


def name(layer: int, place: int) -> str:
    return f"layer_{layer:02}_asset_{place}"


def inputs() -> dict[str, list[str]]:
    """Of every asset, in an order they can be made in."""
    dice = random.Random(7)
    found = {}
    for layer in range(LAYERS):
        for place in range(WIDTH):
            before = [name(layer - 1, p) for p in dice.sample(range(WIDTH), dice.choice((2, 3)))]
            found[name(layer, place)] = before if layer else ["raw"]
    return found


def partitions(daily: bool) -> list[str | None]:
    """Of each run, in order."""
    days = [f"d:{date(2025, 1, 1) + timedelta(n)}" for n in range(RUNS // 2)]
    return [*days, *days] if daily else [None] * RUNS


def rows_of_a_run(
    run: uuid.UUID, partition: str | None, at: datetime, graph: dict[str, list[str]]
) -> Iterator[tuple[object, ...]]:
    made: dict[str, uuid.UUID] = {}
    for asset, read in graph.items():
        made[asset] = uuid.uuid4()
        of_inputs = [partition if i in made else None for i in read]
        ids = [made.get(i) for i in read]
        when = (at, at + timedelta(seconds=len(made)), at)
        hashes = ("0" * 64, "1" * 64, "2" * 64, "runs/r/a/output")
        own = (made[asset], *OWNER.key.values(), asset, partition, run)
        yield (*own, "success", *when, read, of_inputs, ids, *hashes)


def fill(url: str, daily: bool) -> int:
    """Committed, and known to the planner; the number of rows."""
    runs = [(uuid.uuid4(), p, BEGAN + timedelta(hours=n)) for n, p in enumerate(partitions(daily))]
    graph = inputs()
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        with cursor.copy(COPY_RUNS) as copy:
            for run, _, at in runs:
                own = (run, str(run), *OWNER.key.values())
                copy.write_row((*own, "success", str(run), "bench", at))
        with cursor.copy(COPY_MATERIALIZATIONS) as copy:
            for run, partition, at in runs:
                for row in rows_of_a_run(run, partition, at, graph):
                    copy.write_row(row)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return len(runs) * len(graph)


def questions(partition: str | None) -> list[Question]:
    first, middle, last = name(0, 0), name(LAYERS // 2, 0), name(LAYERS - 1, 0)
    return [
        Question("up from the last layer", lambda of: of.up(last, partition)),
        Question("down from the source", lambda of: of.down("raw")),
        Question("down from the first layer", lambda of: of.down(first, partition)),
        Question("down from the middle", lambda of: of.down(middle, partition)),
        Question("impact from the first layer", lambda of: of.impact(first, partition)),
        Question("impact from the middle", lambda of: of.impact(middle, partition)),
        Question("impact by asset, first layer", lambda of: of.impact(first, None, "asset")),
        Question("impact by asset, middle", lambda of: of.impact(middle, None, "asset")),
    ]


def measure(database: Database, question: Question, repeats: int) -> dict[str, object]:
    taken, reached = [], []
    for round_ in range(repeats + 1):
        with database.transaction() as tx:
            started = time.perf_counter()
            reached = question.ask(Lineage(tx, OWNER))
            if round_:  # the first round warms up
                taken.append((time.perf_counter() - started) * 1000)
    return {
        "question": question.name,
        "reached": len(reached),
        "median_ms": round(statistics.median(taken), 1),
        "max_ms": round(max(taken), 1),
    }


def history(daily: bool, repeats: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="tallyman-bench-") as folder:
        database = Database(None, Path(folder))
        try:
            with database.transaction():  # makes the tables
                pass
            rows = fill(database.owner_url, daily)
            asked = questions("d:2025-03-01" if daily else None)
            results = [measure(database, question, repeats) for question in asked]
        finally:
            database.close()
    kind = "250 daily partitions, 2 runs each" if daily else "no partitions, 500 runs"
    return {"history": kind, "materializations": rows, "results": results}


def report(histories: list[dict], repeats: int, load: float) -> None:  # type: ignore[type-arg]
    print(f"median and maximum of {repeats}, target {TARGET_MS} ms, load before {load:.1f}")
    print(f"{'history':34} {'question':30} {'reached':>8} {'median ms':>10} {'max ms':>8}")
    for found in histories:
        for r in found["results"]:
            late = "  over the target" if r["median_ms"] > TARGET_MS else ""
            times = f"{r['median_ms']:10.1f} {r['max_ms']:8.1f}"
            print(f"{found['history']:34} {r['question']:30} {r['reached']:8,} {times}{late}")
    written = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "load_before": round(load, 1),  # of other work: beyond the cores, times are too long
        "repeats": repeats,
        "target_ms": TARGET_MS,
        "histories": histories,
    }
    place = Path(__file__).parent / "results" / "lineage.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(written, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    report([history(daily, given.repeats) for daily in (True, False)], given.repeats, load)


if __name__ == "__main__":
    main()
