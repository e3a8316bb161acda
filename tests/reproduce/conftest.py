"""A project with everything a record can meet, and how a test looks at what is left."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.world.git import git
from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.numbers import PIPELINE, NumbersHome

TABLES = (
    *("runs", "materializations", "fragments", "versions", "version_fragments", "commits"),
    *("datasets", "seals", "audit_log", "resolutions", "approvals", "lineage_events"),
)
KINDS = ("red", "green", "blue", "none")
ORDERS = """\
import tallyman as tm

orders = tm.source(
    "orders", path="data/orders", format="json", key="id",
    schema="id string, kind string, n int, tags array<string>",
)
notes = tm.source("notes", path="data/notes", format="json", schema="text string, n int")
kinds = tm.source(
    "kinds", path="data/kinds.csv", format="csv", key="kind", schema="kind string, label string"
)


@tm.asset(key="id")
def clean(orders, kinds):
    return (
        orders.expect("not_negative", "n >= 0", code="NEGATIVE")
        .filter("n <> 7", reason="unlucky")
        .join(kinds, "kind", unmatched="error")
    )


@tm.asset(key="label")
def totals(clean):
    return clean.groupBy("label").agg(total="sum(n)", orders="count(*)")


@tm.asset
def tags(clean):
    return clean.select("id", "tags").explode("tags", "tag").select("tag")


@tm.asset
def noted(notes):
    return notes.filter("n > 1", reason="small").select("text")


@tm.asset(key="id")
def states(orders):
    return (
        orders.update({"n": "n + 1"}, where="kind = 'red'")
        .delete(where="n = 9")
        .output("out/states.csv", format="csv", columns=["id", "n"])
    )
"""


@pytest.fixture(scope="module")
def new_home(homes: Homes) -> Callable[[], NumbersHome]:
    return lambda: homes.make(NumbersHome, "scenario").pipeline(PIPELINE)


@pytest.fixture(scope="module")
def orders(new_home: Callable[[], NumbersHome]) -> Callable[..., NumbersHome]:
    """A project of orders, some of which are broken, in several files; nothing has run yet."""

    def make(pipeline: str = ORDERS) -> NumbersHome:
        home = new_home().pipeline(pipeline)
        write_orders(home)
        return home

    return make


def write_orders(home: Home, *, first: int = 0) -> None:
    data = home.path / "data"
    for folder in ("orders", "notes"):
        (data / folder).mkdir(parents=True, exist_ok=True)
    for number in range(4):
        rows = [_order(first + number * 25 + n) for n in range(25)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (data / "orders" / f"part-{number}.jsonl").write_text(text + "broken\n")
        notes = [{"text": f"note {n % 5}", "n": n % 4} for n in range(20)]
        text = "".join(json.dumps(row) + "\n" for row in notes)
        (data / "notes" / f"part-{number}.jsonl").write_text(text)
    (data / "kinds.csv").write_text("kind,label\nred,R\ngreen,G\nblue,B\n")


def _order(n: int) -> dict[str, Any]:
    kind = "zz" if n % 50 == 3 else KINDS[n % 3]
    return {"id": f"o{n:03d}", "kind": kind, "n": -1 if n % 40 == 5 else n % 11, "tags": ["a", "b"]}


def shuffled(home: Home) -> None:
    """The same files, made anew in another order: other inodes, other times, the same names."""
    files = [path for path in (home.path / "data").rglob("*") if path.is_file()]
    content = {path: path.read_bytes() for path in files}
    random.Random(6).shuffle(files)
    for path in files:
        path.unlink()
    for number, path in enumerate(files):
        path.write_bytes(content[path])
        os.utime(path, (10**9 - number, 10**9 - number))


OTHER_PARTITIONS = (
    *("--spark-conf", "spark.sql.shuffle.partitions=7"),
    *("--spark-conf", "spark.sql.files.maxPartitionBytes=700"),
    *("--spark-conf", "spark.sql.files.openCostInBytes=0"),
)


def left(home: Home) -> dict[str, Any]:
    """How many rows the registry has, and every file outside of the database."""
    counts = {name: home.sql(f"SELECT count(*) FROM {name}") for name in TABLES}
    files = {
        str(path.relative_to(home.path)): (path.stat().st_size, path.stat().st_mtime_ns)
        for place in ("runs", "warehouse", "data", "pipelines", "out")
        for path in sorted((home.path / place).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    return {"counts": counts, "files": files, "aside": aside(home)}


def aside(home: Home) -> list[str]:
    return sorted(path.name for path in (home.path / ".tallyman").glob("reproduce*"))


def verdicts(reply: Any) -> dict[str, str]:
    named = ((t["asset"], t["partition"], t["verdict"]) for t in reply["targets"])
    return {f"{a}[{p}]" if p else a: v for a, p, v in named}


def target(reply: Any, asset: str) -> Any:
    [found] = [t for t in reply["targets"] if t["asset"] == asset]
    return found


def manifest(home: Home, run: str) -> Any:
    [path] = (home.path / "runs").glob(f"*_{run}/manifest.json")
    return json.loads(path.read_text())


def stored(home: Home, producer: str) -> Path:
    """The one file of the current version of an asset."""
    [[dataset, fragment]] = home.sql(
        "SELECT d.id, f.fragment_id FROM datasets d JOIN version_fragments f ON f.dataset_id = d.id"
        f" AND f.until IS NULL WHERE d.producer = '{producer}'"
    )
    [found] = (home.path / "warehouse").rglob(f"{dataset}/version/{fragment}/*.parquet")
    return found


def committed(home: Home) -> str:
    """The project under git; what a run makes is not part of it."""
    if not (home.path / ".git").exists():
        git(home.path, "init", "-q", "-b", "main")
        (home.path / ".gitignore").write_text(".tallyman\nruns\nwarehouse\n__pycache__\n")
    git(home.path, "add", "-A")
    git(home.path, "commit", "-q", "--allow-empty", "-m", "as it is")
    return git(home.path, "rev-parse", "HEAD")


def unsealed(home: Home, run: str) -> None:
    """As a run of a version before seals is."""
    of_run = f"run_id = (SELECT id FROM runs WHERE name = '{run}')"
    home.owner(f"DELETE FROM seals WHERE {of_run}")  # seals are append-only otherwise


@contextmanager
def edited(path: Path, old: str, new: str) -> Iterator[None]:
    """For the length of a block, whatever it is that is compared then."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    try:
        yield
    finally:
        path.write_text(text)
