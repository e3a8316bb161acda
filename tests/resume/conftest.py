"""A project whose assets have several segments, and readers of what a run left of a target."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

orders = tm.source(
    "orders", path="data/orders.jsonl", format="json", key="id",
    schema="id string, kind string, n int, tags array<string>",
)
more = tm.source("more", path="data/more.jsonl", format="json", key="id",
                 schema="id string, kind string, n int, tags array<string>")


def counts(orders):
    return (
        orders.expect("positive", "n > 0")
        .expect("small", "n < 15", severity="warn")
        .filter("kind <> 'none'", reason="no kind")
        .dropDuplicates(["kind", "n"])
        .explode("tags", "tag")
        .groupBy("kind", "tag").agg(total="sum(n)")
        .groupBy("kind").agg(tags="count(*)", total="sum(total)")
    )


@tm.asset(key="kind")
def counted(orders):
    return counts(orders)


@tm.asset(key="kind", evidence="digest")
def digested(orders):
    return counts(orders)


@tm.asset(key="id")
def states(orders, more):
    return (
        orders.update({"n": "n + 1"}, where="kind = 'red'")
        .delete(where="n = 9")
        .append(more)
        .update({"n": "n * 10"}, where="n > 3")
        .output("out/states.csv", format="csv", columns=["id", "n"])
        .update({"n": "n + 5"})
        .delete(where="kind = 'none'")
    )
"""


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    kinds = ("red", "green", "blue", "none")
    made = homes.make(Home, "resume").pipeline(PIPELINE)
    rows = [
        {"id": f"o{n:02}", "kind": kinds[n % 4], "n": n, "tags": [f"t{n % 3}", f"t{n % 5}"]}
        for n in range(20)
    ]
    made.data("orders.jsonl", *rows)
    return made.data("more.jsonl", *({**row, "id": f"m{row['id']}"} for row in rows[:5]))


def segments(home: Home, run: str, attempt: int, asset: str) -> Path:
    return home.folder(run) / ".staging" / str(attempt) / f"{asset}.work"


def left(home: Home, run: str, asset: str) -> dict[str, Any]:
    """Read all that a run left of a target, by folder, without names of runs and ids of rows."""
    place = home.folder(run) / asset
    found: dict[str, Any] = {}
    for folder, rows in _rows(place):
        found.setdefault(folder, Counter()).update(rows)
    ledger = json.loads((place / "ledger.json").read_text())
    for name in ("run_id", "files"):
        ledger.pop(name)
    text = json.dumps(ledger).replace(home.folder(run).name, "RUN").replace(run, "RUN")
    # A row's id follows from the run, so digests of ids differ.
    return found | {"ledger": re.sub(r'"[0-9a-f]{32}"', '"…"', text) if "trace" in found else text}


def _without_id(row: dict[str, Any]) -> dict[str, Any]:
    """Drop the id of a row, in a trace or in an output."""
    trace = row.get("_tm_trace") or (row.get("_tm") or {}).get("trace")
    if trace:
        trace.pop("id")
    return {name: value for name, value in row.items() if name != "row_id"}


def _rows(place: Path) -> Iterator[tuple[str, list[str]]]:
    for file in sorted(path for path in place.rglob("*") if path.is_file()):
        folder = re.sub(r"run_id=[^/]*", "run_id=RUN", str(file.parent.relative_to(place)))
        if file.suffix == ".parquet":
            rows = pq.ParquetFile(file).read().to_pylist()
            kind = file.name.partition("-")[0]
            yield f"{folder}/{kind}", [repr(_without_id(row)) for row in rows]
        elif file.suffix == ".jsonl":
            lines = map(json.loads, file.read_text().splitlines())
            passing = ("run_id", "openlineage_run_id", "timestamp")
            yield folder, [repr({n: v for n, v in r.items() if n not in passing}) for r in lines]
        elif file.suffix == ".csv":
            yield folder, file.read_text().splitlines()
