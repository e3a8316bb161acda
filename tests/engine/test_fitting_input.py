"""Bytes of which every record was found to fit are typed only where an asset reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tallyman.engine.source import door_memory
from tallyman.engine.source.json_input import JsonInput
from tallyman.engine.source.lines_input import LinesInput
from tests.engine.conftest import Ran, Workshop
from tests.world.scale import some

SCHEMA = "id string, n int, day date, at timestamp, price decimal(6,2) NOT NULL"
PIPELINE = f"""
ANY = dict(thresholds=dict(absolute=0, percentage=1))
SCHEMA = "{SCHEMA}"
tm.source("lines", "data/lines.json", key="id", schema=SCHEMA)
tm.source("pairs", "data/lines.json", key=["id", "n"], schema=SCHEMA)
tm.source("table", "data/table.csv", "csv", key="id", schema=SCHEMA)
tm.source("bare", "data/table.csv", "csv", schema=SCHEMA)

def checked(rows):
    return rows.filter("n > 2", name="low").expect("cheap", "price < 8").select("id", "n")

@tm.asset(**ANY, key="id")
def of_lines(lines):
    return checked(lines)

@tm.asset(**ANY, key="id")
def of_pairs(pairs):
    return checked(pairs)

@tm.asset(**ANY, key="id")
def of_table(table):
    return checked(table)

@tm.asset(**ANY, key="id")
def of_bare(bare):
    return checked(bare)

@tm.asset(**ANY, key="n", evidence="keys")
def groups(lines):
    return checked(lines).groupBy("n").agg(total="count(*)")
"""
POLICY = "spark.sql.legacy.timeParserPolicy"
Records = list[dict[str, Any]]


def _records() -> Records:
    day = "2024-01-0{}"
    return [
        {"id": f"k{n}", "n": n, "day": day.format(n + 1), "at": f"{day.format(1)}T0{n}:00:00Z"}
        | {"price": f"{n}.50"}
        for n in range(9)
    ]


def _write(shop: Workshop, records: Records) -> None:
    shop.lines("lines.json", records)
    rows = [",".join(map(str, record.values())) for record in records]
    shop.lines("table.csv", [",".join(records[0]), *rows])


@pytest.fixture
def shop(workshop: Callable[..., Workshop]) -> Workshop:
    shop = workshop(interpreted=True).pipeline(PIPELINE)
    _write(shop, _records())
    return shop


@pytest.fixture
def fitting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The inputs that were read as fitting."""
    found: list[str] = []
    for reader in (JsonInput, LinesInput):
        original = reader.fitting

        def note(source: Any, names: Any, original: Callable[..., Any] = original) -> Any:
            found.append(source.name)
            return original(source, names)

        monkeypatch.setattr(reader, "fitting", note)
    return found


def _found(ran: Ran) -> dict[str, Any]:
    """What became of every record, and the rows: the same however the records are read."""
    return {
        one.name: (
            ran[one.name].ledger["input_accounting"],
            ran[one.name].partitions,
            ran[one.name].subs,
            sorted(map(str, ran.rows(one.name))),
            sorted((r["source_key"], r["morphism_path"]) for r in ran[one.name].rejections),
        )
        for one in ran.result.assets
    }


def test_the_next_run_types_only_what_it_reads_and_finds_the_same(
    shop: Workshop, fitting: list[str]
) -> None:
    first = shop.run()
    fitting.clear()  # the second asset of one run may recall what the first one found
    again = shop.run(force=True)
    assert set(fitting) == {"lines", "pairs", "table", "bare"}
    assert _found(again) == _found(first)
    assert again["of_lines"].fates == {"PASS_THROUGH": 5, "FILTERED": 3, "ERROR": 1}


HARMS = [{"day": "never"}, {"price": None}, {"day": "10000-01-01"}]


@pytest.mark.parametrize("harm", some(HARMS, 1))
def test_a_record_that_does_not_fit_is_rejected_in_every_run(
    shop: Workshop, fitting: list[str], harm: dict[str, Any]
) -> None:
    """Also if only columns that the asset does not read are wrong."""
    records = _records()
    records[4] |= harm
    shop.lines("lines.json", records)
    first = shop.run("of_lines")
    again = shop.run("of_lines", force=True)
    assert not fitting
    assert _found(again) == _found(first)
    assert again["of_lines"].fates == {"PASS_THROUGH": 4, "FILTERED": 3, "ERROR": 2}


def test_another_declaration_of_the_same_bytes_is_typed(shop: Workshop, fitting: list[str]) -> None:
    shop.run("of_lines")
    shop.pipeline(PIPELINE.replace("day date", "day int"))
    ran = shop.run("of_lines", force=True)
    assert not fitting
    assert ran["of_lines"].fates["ERROR"] == 9


@pytest.fixture
def policy(shop: Workshop) -> Iterator[None]:
    spark = shop.open().spark
    before = spark.conf.get(POLICY)
    yield
    spark.conf.set(POLICY, str(before))


@pytest.mark.usefixtures("policy")
def test_other_settings_of_spark_type_the_same_bytes_again(
    shop: Workshop, fitting: list[str]
) -> None:
    shop.run("of_lines")
    shop.open().spark.conf.set(POLICY, "LEGACY")
    shop.run("of_lines", force=True)
    assert not fitting


def test_a_memory_that_is_wrong_fails_the_run_and_is_forgotten(
    shop: Workshop, fitting: list[str]
) -> None:
    shop.run("of_lines", "of_table")
    doors = shop.home / ".tallyman" / "doors"
    typing = {json.loads(f.read_text())["door"]["typing"] for f in doors.iterdir()}
    records = _records()
    records[4]["n"] = "four"
    _write(shop, records)
    shop.run("of_lines", "of_table", force=True)
    for file in doors.iterdir():
        _forge(file, typing.copy().pop())
    failed = shop.run("of_lines", "of_table", force=True)
    assert set(fitting) == {"lines", "table"}
    assert {(one.error or {})["code"] for one in failed.result.assets} == {
        "input_unreadable",
        "step_failed",
    }
    fitting.clear()
    healed = shop.run("of_lines", "of_table", force=True)
    assert not fitting
    for name in ("of_lines", "of_table"):
        assert healed[name].fates == {"PASS_THROUGH": 4, "FILTERED": 3, "ERROR": 2}


def _forge(file: Path, typing: str) -> None:
    door = json.loads(file.read_text())["door"] | {"typing": typing}
    file.write_text(json.dumps({"door": door, "sha256": door_memory._hash(door)}))
