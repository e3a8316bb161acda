"""One small shop whose runs end in every way a run can end; its data is as hostile as it gets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.world.homes import Homes
from tests.world.numbers import NumbersHome

SCRIPT = "<script>alert('paid')</script>"
LONG = "y" * 5000
PIPELINE = """\
import tallyman as tm

orders = tm.source(
    "orders", path="data/orders.jsonl", format="json", key="id",
    schema="id string, note string, price int, tags array<string>, day date",
)
raw = tm.source(
    "raw", path="data/{partition}/raw.jsonl", format="json", key="id",
    schema="id string, n int, day date",
)


@tm.asset(key="id", thresholds="absolute=100,percentage=0.9")
def good(orders):
    return (orders.expect("short_note", "length(note) < 20")
                  .filter("price > 0", reason="given <b>away</b>", name="priced"))


@tm.asset(key="day")
def totals(good):
    return (good.explode("tags", name="per_tag")
                .groupBy("day").agg(total="sum(price)", name="per_day"))


@tm.asset(key="id", partitioned_by=tm.daily("day", start="2026-01-01", end="2026-01-03"))
def daily(raw):
    return raw.withColumn("share", "10 / n")
"""
CHANGED = PIPELINE.replace("length(note) < 20", "length(note) < 30")


def order(number: int, **more: object) -> dict[str, object]:
    made = {"id": f"o-{number}", "note": "fine", "price": number, "tags": ["a", "b"]}
    return {**made, "day": f"2026-01-0{1 + number % 3}", **more}


ORDERS = [
    *(order(number) for number in range(1, 21)),
    order(21, price=0),
    order(22, price=-5),
    order(23, note=SCRIPT),
    order(24, note=f"nul\0bell\a and \u202e right to left {SCRIPT}"),
    order(25, note=LONG),
    order(26, price="<img src=x onerror=alert(1)>"),
    order(27, id=f"<b>{SCRIPT}</b>", note=LONG),
]


@dataclass
class ReportHome(NumbersHome):
    """Its runs, by how they ended: the name of each is its id."""

    answers: dict[str, Any] = field(default_factory=dict)

    def run(self, name: str, *words: str, **more: str) -> ReportHome:
        self.answers[name] = self.tallyman("run", *words, "--run-id", name, **more).json
        return self

    def backfill(self, name: str, *words: str) -> ReportHome:
        """Its id is generated."""
        self.answers[name] = self.tallyman("backfill", *words).json
        return self

    def id(self, name: str) -> str:
        found = self.answers.get(name)
        return str(found["run_id"]) if isinstance(found, dict) else name

    def statuses(self) -> dict[str, str]:
        by_id = {row["run_id"]: row["status"] for row in self.ok("runs")}
        return {name: by_id[self.id(name)] for name in self.answers}

    def orders(self, *rows: dict[str, object]) -> ReportHome:
        return self.data("orders.jsonl", *rows)

    def folder_of(self, name: str) -> Path:
        return next((self.path / "runs").glob(f"*_{self.id(name)[:8]}"))

    def read(self, name: str, file: str) -> Any:
        return json.loads((self.folder_of(name) / file).read_text())

    def copied(self, name: str, new: str, change: Callable[[Path], None]) -> None:
        """A run folder from elsewhere: the registry never saw this run."""
        target = self.path / "runs" / f"0101_000000_{new}"
        shutil.copytree(self.folder_of(name), target)
        edit(target / "manifest.json", run_id=new)
        edit(target / "processing_report.json", run_id=new)
        (target / "seal.json").unlink()
        change(target)

    def page(self, name: str) -> str:
        code, text, said = self.printed("report", self.id(name), "--html", "--output", "-")
        assert code == 0, said
        return text


def edit(path: Path, **more: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))


@pytest.fixture(scope="session")
def shop(session_homes: Homes) -> ReportHome:
    made = session_homes.make(ReportHome, "scenario").pipeline(PIPELINE).orders(*ORDERS)
    made.run("first", "good", "totals")
    made.run("again", "good", "totals")
    made.run("halted", "good", "--force", "--thresholds", "absolute=1,percentage=0.01")
    made.pipeline(CHANGED).orders(*ORDERS[:10], order(99))
    strict = ("--thresholds", "absolute=7,percentage=0.5")
    made.run("changed", "good", "totals", *strict, "--spark-conf", "spark.sql.shuffle.partitions=3")
    made.orders().run("empty", "good", "--force")
    made.numbers("2026-01-01", 1, 2, 4).numbers("2026-01-02", 5, 0).numbers("2026-01-03", 5)
    made.backfill("partly", "daily", "--from", "2026-01-01", "--to", "2026-01-03")
    third = ("daily", "--partition", "2026-01-03", "--force")
    return made.run("crashed", *third, TALLYMAN_CRASH_AT="output_moved")
