"""A door measures the same bytes once: the next run recalls it; other bytes are measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.source import door_memory
from tallyman.engine.source.door_memory import Door, DoorMemory
from tallyman.engine.source.json_input import JsonInput
from tallyman.engine.source.lines_input import LinesInput
from tallyman.engine.source.parquet_input import ParquetInput
from tests.engine.conftest import Ran, Workshop

PIPELINE = """
ANY = dict(thresholds=dict(absolute=0, percentage=1))
tm.source("lines", "data/lines.json", key="id", schema="id string, n int")
tm.source("table", "data/table.csv", "csv", key="id", schema="id string, n int")
tm.source("columns", "data/columns", "parquet", key="id")

@tm.asset(**ANY)
def from_lines(lines):
    return lines.filter("n > 2")

@tm.asset(**ANY)
def from_table(table):
    return table.filter("n > 2")

@tm.asset(**ANY)
def from_columns(columns):
    return columns.filter("n > 2")
"""
ASSETS = ["from_lines", "from_table", "from_columns"]
READERS = (JsonInput, LinesInput, ParquetInput)


@pytest.fixture
def shop(workshop: Callable[..., Workshop]) -> Workshop:
    shop = workshop(interpreted=True).pipeline(PIPELINE)
    shop.lines("lines.json", [{"id": f"k{n % 7}", "n": n} for n in range(9)])
    shop.lines("table.csv", ["id,n", *(f"k{n},{n}" for n in range(9)), ""])
    rows = shop.open().spark.range(9).selectExpr("concat('k', id) AS id", "CAST(id AS int) AS n")
    return shop.parquet("columns", rows)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The inputs whose keys were measured, in order."""
    found: list[str] = []
    for reader in READERS:
        original = reader.measured

        def note(source: Any, original: Callable[[Any], Door] = original) -> Door:
            found.append(source.name)
            return original(source)

        monkeypatch.setattr(reader, "measured", note)
    return found


def _accounts(ran: Ran) -> list[Any]:
    return [ran[asset].ledger["input_accounting"] for asset in ASSETS]


def test_the_same_bytes_are_measured_once(shop: Workshop, measured: list[str]) -> None:
    first = shop.run()
    assert set(measured) == {"lines", "table", "columns"}
    measured.clear()
    again = shop.run(force=True)
    assert _accounts(again) == _accounts(first)
    # Of keys that repeat the places are read too, by another reader, which remembers as well.
    assert set(measured) == {"lines"}


def test_another_byte_is_measured(shop: Workshop, measured: list[str]) -> None:
    shop.run()
    measured.clear()
    file = Path(shop.data) / "table.csv"
    file.write_text(file.read_text().replace("k8,8", "k9,8"))
    changed = shop.run("from_table", force=True)
    assert measured == ["table"]
    assert changed.asset("from_table").status == "success"
    assert changed["from_table"].balanced


def test_a_forged_memory_fails_the_run_instead_of_hiding_a_loss(shop: Workshop) -> None:
    shop.run("from_columns")
    for file in (shop.home / ".tallyman" / "doors").iterdir():
        said = json.loads(file.read_text())
        said["door"]["digest"]["count"] += 1
        file.write_text(
            json.dumps({"door": said["door"], "sha256": door_memory._hash(said["door"])})
        )
    failed = shop.run("from_columns", force=True).asset("from_columns")
    assert (failed.status, (failed.error or {})["code"]) == ("failed", "rows_unaccounted_for")


@pytest.mark.parametrize("harm", ["", "{}", "[1]", '{"door": {}, "sha256": "x"}'])
def test_a_damaged_memory_is_no_memory(tmp_path: Path, harm: str) -> None:
    memory, door = DoorMemory(tmp_path / "doors"), Door(KeyDigest(3, -4, 5), 1, 2, 0)
    memory.keep("sha256:a", "reading", door)
    assert memory.recall("sha256:a", "reading") == door
    assert memory.recall("sha256:b", "reading") is None
    assert memory.recall("sha256:a", "other") is None
    [file] = memory.folder.iterdir()
    file.write_text(harm)
    assert memory.recall("sha256:a", "reading") is None


def test_the_oldest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_memory, "MOST", 3)
    memory = DoorMemory(tmp_path)
    for number in range(5):
        memory.keep(str(number), "reading", Door(KeyDigest(number)))
    assert len(list(tmp_path.iterdir())) == 3
    assert memory.recall("4", "reading") == Door(KeyDigest(4))
