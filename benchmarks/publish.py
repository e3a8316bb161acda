"""How long readers wait for a publication, a rollback and a small mutation. No Spark.

    .venv/bin/python benchmarks/publish.py --repeats 20

Datasets take turns between two states whose files were made before, so that only the publication
is timed: one transaction with its COMMIT. Its share of Iceberg metadata is the time in which
files are written and made durable, which does not depend on the size of the data. A rollback
goes back by commit and writes no file. A mutation inserts one row into a table: from Python, and
as a command of its own, which mostly starts Python.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa

import tallyman as tm
from tallyman.control.publish import rollback
from tallyman.control.publish.commit import publish
from tallyman.control.publish.fragment import described
from tallyman.control.publish.mutate import dataset_of
from tallyman.domain.version.commit import Change, Commit, Operation, Publication
from tallyman.domain.version.dataset import Dataset, Fragment
from tallyman.domain.version.owner import Owner
from tallyman.domain.version.table import Table
from tallyman.engine.table.file import write_file
from tallyman.engine.warehouse import iceberg
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.registry.database import Database, Transaction
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments

SIZES = (1, 10, 50)
PROJECT = "bench"
OWNER = Owner("default", PROJECT)
PIPELINE = """\
import tallyman as tm

person = tm.table("person", schema="name string not null, age int", key="name")
"""


@dataclass
class Bench:
    """Datasets with two states each, and which of them is current."""

    database: Database
    warehouse: Warehouse
    datasets: list[Dataset] = field(default_factory=list)
    states: dict[UUID, tuple[Fragment, Fragment]] = field(default_factory=dict)
    ordinals: dict[UUID, int] = field(default_factory=dict)

    def make(self, count: int) -> None:
        for n in range(count):
            wanted = dataset_of(Table.of(f"dataset_{n}", "n int", "n"), OWNER)
            dataset = self.database.durably(lambda tx, w=wanted: Datasets(tx).ensure(w))
            self.datasets.append(dataset)
            self.states[dataset.id] = (self._state(dataset, 0), self._state(dataset, 1))
            self.ordinals[dataset.id] = 0

    def _state(self, dataset: Dataset, n: int) -> Fragment:
        name = uuid4()
        rows = pa.record_batch({"n": pa.array([n], pa.int32())})
        file = write_file(self.warehouse.fragment(dataset.id, name), rows.schema, [rows])
        files = self.warehouse.describe([file], dataset.id)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        bare = Fragment(id=name, dataset_id=dataset.id, files=files, digest=digest)
        made = described(self.warehouse, dataset, bare)
        self.database.durably(lambda tx: Fragments(tx).open(made, None))
        self.database.durably(lambda tx: Fragments(tx).prepare(made, None))
        return made

    def publish(self, datasets: Sequence[Dataset]) -> Commit | None:
        changes = tuple(self._other_state(dataset.id) for dataset in datasets)
        asked = Publication(key=uuid4(), kind="load", actor="b", owner=OWNER, changes=changes)
        made = self.database.durably(lambda tx: publish(tx, self.warehouse, asked))
        for dataset in datasets:
            self.ordinals[dataset.id] += 1
        return made

    def _other_state(self, dataset: UUID) -> Change:
        at, states = self.ordinals[dataset], self.states[dataset]
        return Change(
            dataset_id=dataset,
            operation=Operation.MUTATE,
            adds=(states[(at + 1) % 2],),
            removes=frozenset({states[at % 2].id}),
            expected=at,
        )

    def back(self, to: Commit) -> Commit | None:
        asked = rollback.asking(uuid4(), "b", OWNER, None)

        def work(tx: Transaction) -> Commit | None:
            return rollback.to_commit(tx, self.warehouse, asked, str(to.id))

        return self.database.durably(work)


def median(taken: Sequence[float]) -> float:
    return round(statistics.median(taken) * 1000, 1)


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def publications(bench: Bench, count: int, repeats: int) -> dict[str, Any]:
    some, original = bench.datasets[:count], iceberg.write_version
    whole, metadata = [], []

    def write_version(*given: Any) -> str:
        begun = time.perf_counter()
        try:
            return original(*given)
        finally:
            metadata[-1] += time.perf_counter() - begun

    iceberg.write_version = write_version
    try:
        for _ in range(repeats + 1):  # the first round warms up
            metadata.append(0.0)
            whole.append(timed(lambda: bench.publish(some)))
    finally:
        iceberg.write_version = original
    rest = [w - m for w, m in zip(whole, metadata, strict=True)]
    return {
        "what": f"publish {count} dataset{'s' if count > 1 else ''}",
        "median_ms": median(whole[1:]),
        "metadata_ms": median(metadata[1:]),
        "rest_ms": median(rest[1:]),
    }


def rollbacks(bench: Bench, repeats: int) -> dict[str, Any]:
    one, other = (bench.publish(bench.datasets) for _ in range(2))
    assert one is not None
    assert other is not None
    targets = [(one, other)[n % 2] for n in range(repeats + 1)]
    taken = [timed(lambda to=to: bench.back(to)) for to in targets]
    return {"what": f"roll back {len(bench.datasets)} datasets", "median_ms": median(taken[1:])}


def mutations(home: Path, repeats: int) -> list[dict[str, Any]]:
    """The server runs already; what it takes to start one is not in here."""
    (home / "tallyman.yaml").write_text(f"name: {PROJECT}\n")
    (home / "pipelines").mkdir()
    (home / "pipelines" / "p.py").write_text(PIPELINE)
    names = iter(range(1_000_000))

    def statement() -> dict[str, Any]:
        rows = [{"name": f"P{next(names)}", "age": 1}]
        return {"statements": [{"insert": {"into": "person", "rows": rows}}]}

    def command() -> None:
        (home / "m.json").write_text(json.dumps(statement()))
        tool = Path(sys.executable).with_name("tallyman")
        subprocess.run([tool, "mutate", "m.json"], cwd=home, check=True, capture_output=True)

    with tm.Project.open(home) as project:
        inside = [timed(lambda: project.mutate(statement())) for _ in range(repeats + 1)]
        outside = [timed(command) for _ in range(max(3, repeats // 3))]
    return [
        {"what": "insert a row, from Python", "median_ms": median(inside[1:])},
        {"what": "insert a row, by the command", "median_ms": median(outside)},
    ]


def measure(repeats: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="tallyman-bench-") as folder:
        place = Path(folder)
        bench = Bench(Database(None, place / "state"), Warehouse(place / "warehouse", OWNER))
        try:
            bench.make(max(SIZES))
            results = [publications(bench, count, repeats) for count in SIZES]
            results.append(rollbacks(bench, repeats))
        finally:
            bench.database.close()
        (place / "home").mkdir()
        return [*results, *mutations(place / "home", repeats)]


def report(results: Sequence[dict[str, Any]], repeats: int, load: float) -> None:
    print(f"median of {repeats}, load before {load:.1f}")
    print(f"{'what':30} {'median ms':>10} {'metadata ms':>12} {'rest ms':>8}")
    for r in results:
        split = "".join(
            f"{r.get(name, ''):>{w}}" for name, w in (("metadata_ms", 13), ("rest_ms", 9))
        )
        print(f"{r['what']:30} {r['median_ms']:10.1f}{split}")
    written = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "load_before": round(load, 1),  # of other work: beyond the cores, times are too long
        "repeats": repeats,
        "results": list(results),
    }
    place = Path(__file__).parent / "results" / "publish.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(written, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    report(measure(given.repeats), given.repeats, load)


if __name__ == "__main__":
    main()
