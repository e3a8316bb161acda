"""Projects with broken records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.world.home import Home
from tests.world.homes import Homes

TABLES = ("runs", "materializations", "fragments", "commits", "versions", "resolutions")
LETTERS = """\
import tallyman as tm

raw = tm.source(
    "raw", path="data/raw.jsonl", format="json", key="id", schema="id string, n int, kind string"
)
kinds = tm.table("kinds", schema="kind string not null, label string", key="kind")


@tm.asset(key="id", thresholds="absolute=0,percentage=1")
def good(raw, kinds):
    return raw.expect("positive", "n > 0", code="NEGATIVE").join(kinds, "kind", unmatched="error")


@tm.asset(key="label")
def totals(good):
    return good.groupBy("label").agg(total="sum(n)")
"""
RAW = """\
{"id": "a", "n": 1, "kind": "x"}
{"id": "b", "n": -2, "kind": "x"}
{"id": "c", "n": "three", "kind": "x"}
{"id": "d", "n": 4, "kind": "zz"}
not json
{"id": "e", "n": 5, "kind": "y"}
"""


@pytest.fixture(scope="module")
def new_home(homes: Homes) -> Callable[[], Home]:
    return lambda: homes.make(Home, "letters")


def lettered(home: Home, *more: str) -> str:
    """Two good records, four bad ones, a table to look kinds up in; the run that met them."""
    home.pipeline(LETTERS).data("kinds.jsonl", *({"kind": k, "label": k * 2} for k in "xy"))
    (home.path / "data" / "raw.jsonl").write_text("\n".join([RAW.rstrip(), *more]) + "\n")
    home.ok("load", "kinds", "data/kinds.jsonl")
    return str(home.ok("run", TALLYMAN_ACTOR="ann")["run_id"])


def replay(home: Home, run: str, *words: str, lines: str | None = None, **more: str) -> Any:
    """With the lines as corrections, if there are any."""
    if lines is not None:
        (home.path / "fix.jsonl").write_text(lines)
        words = (*words, "--with", "fix.jsonl")
    return home.ok("rejections", "replay", run, *words, **more)


def told(answer: Any) -> tuple[int, int, int]:
    """Replayed, passed, rejected again."""
    found = [(o["replayed"], o["passed"], o["rejected"]) for o in answer["outcomes"]]
    return tuple(map(sum, zip(*found, strict=True))) if found else (0, 0, 0)  # type: ignore[return-value]


def states(home: Home, run: str) -> dict[str, str]:
    """What became of each rejected record."""
    found = home.ok("rejections", "show", run)["rejections"]
    return {letter["source_key"]: letter["state"] for letter in found}


def ledger(home: Home, answer: Any, place: str) -> Any:
    return read_json(home.path / answer["run"]["folder"] / place / "ledger.json")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def balance(found: Any) -> dict[str, int]:
    """Records in, and how many met each fate."""
    parts = found["output_accounting"]["partitions"]
    counts = {"in": found["input_accounting"]["total_records"]}
    for part in parts:
        kind = part["partition_type"]
        counts[kind] = counts.get(kind, 0) + part["record_count"]
    assert found["verification"]["accounting_balanced"] is True
    assert found["output_accounting"]["unaccounted"] == 0
    return {kind: count for kind, count in counts.items() if count}
