"""What this process writes for few rows is what Spark writes for many."""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.evidence import content
from tallyman.engine.expressions.column_names import KEY, PART, REJECTIONS
from tallyman.engine.files import parquet
from tallyman.engine.segment.ended import EndedColumns
from tallyman.engine.source import json_input
from tallyman.engine.spark import digest
from tallyman.engine.spark.spark_hash import digest_of
from tests.engine.conftest import AssetFiles, Ran, Workshop
from tests.world.scale import by_form

PIPELINE = """
ANY = dict(thresholds=dict(absolute=0, percentage=1))
SCHEMA = "id string, shop string, price int, weight double, day date, at timestamp, cost decimal(20,3)"
tm.source("sales", "data/sales.json", key="id", schema=SCHEMA)
tm.source("again", "data/sales.json", key="id", schema=SCHEMA)
tm.source("days", "data/days.csv", "csv", key="day", schema="day date, name string")

def checked(sales):
    return sales.filter("price > 2", name="cheap").filter("shop <> 'c'", name="closed").expect("bounded", "price < 90").expect("even", "price % 2 = 0")

@tm.asset(**ANY, key="id")
def rows(sales):
    return checked(sales)

@tm.asset(**ANY)
def repeated(sales, again):
    return checked(sales).union(again)

@tm.asset(**ANY, evidence="digest")
def digests(sales):
    return checked(sales).groupBy("shop", "weight", "day", "at", "cost").agg(total="sum(price)", name="by")

@tm.asset(**ANY, evidence="digest")
def whole(sales):
    return checked(sales).groupBy().agg(total="sum(price)", name="all")

@tm.asset(**ANY, evidence="digest")
def renamed(sales):
    return checked(sales).groupBy("shop").agg(total="sum(price)", name="by").withColumn("more", "total + 1")

@tm.asset(**ANY)
def groups(sales):
    return checked(sales).groupBy("shop", "day").agg(total="sum(price)", name="by")

@tm.asset(**ANY)
def failed(sales):
    return checked(sales).groupBy("shop", "day").agg(total="sum(price)", name="by").expect("less", "day <> date'2024-01-01'").filter("total > 9", name="more")

@tm.asset(**ANY)
def joined(sales, days):
    return checked(sales).join(days, "day", unmatched="error", name="days").dropDuplicates(["shop", "price"], name="once")
"""
ASSETS = ["rows", "digests", "failed"]
ASSETS += by_form([], ["joined", "repeated", "whole", "renamed", "groups"])


def _sales() -> list[dict[str, Any] | str]:
    rows: list[dict[str, Any] | str] = [
        {
            "id": f's{n} ä\u2028"\\',
            "shop": ["a", "b\n", "c", None][n % 4],
            "price": n % 100 if n % 17 else "cheap",
            "weight": [0.0, -0.0, 1.5, None][n % 4],
            "day": f"2024-01-0{1 + n % 3}",
            "at": f"2024-01-01T00:00:00.{n % 3:06d}Z",
            "cost": str(n % 5) + ".125",
        }
        for n in range(200)
    ]
    return [*rows, "not a record"]


def _made(shop: Workshop) -> Ran:
    shop.pipeline(PIPELINE).lines("sales.json", _sales())
    shop.raw("days.csv", b"day,name\n2024-01-01,Mon\n2024-01-02,Tue\n")
    return shop.run(*ASSETS)


def by_spark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parquet, "few", lambda *_: False)
    patch.setattr(json_input, "FEW_BYTES", 0)


@pytest.fixture(scope="module")
def here(workshop: Callable[..., Workshop]) -> Ran:
    return _made(workshop(interpreted=True))


@pytest.fixture(scope="module")
def there(workshop: Callable[..., Workshop]) -> Ran:
    with pytest.MonkeyPatch.context() as patch:
        by_spark(patch)
        return _made(workshop(interpreted=True))


@pytest.mark.parametrize("asset", ASSETS)
def test_both_ways_give_the_same(here: Ran, there: Ran, asset: str) -> None:
    assert here.asset(asset).status == there.asset(asset).status == "success"
    assert ledger_of(here[asset]) == ledger_of(there[asset])
    found = content_of(here[asset].folder)
    assert found == content_of(there[asset].folder)
    assert {place.partition("/")[0] for place in found} >= {"output", "errors", "adjoint"}
    assert all(found.values())
    assert _digest(here, asset) == _digest(there, asset) is not None


def _digest(ran: Ran, asset: str) -> str | None:
    [made] = [
        m
        for m in ran.project.runs.materializations(ran.project.runs()[0])
        if m.target.asset == asset
    ]
    return made.content_digest


def ledger_of(files: AssetFiles) -> Any:
    kept = {"output_accounting", "sub_ledgers", "input_accounting", "checks"}
    return {name: value for name, value in files.ledger.items() if name in kept}


def content_of(folder: Path) -> dict[str, list[str]]:
    """The rows of all files of one folder, sorted, by the folder without ids of the run."""
    found: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("part-*")):
        place = "/".join(p for p in file.parent.relative_to(folder).parts if "run_id=" not in p)
        if file.suffix == ".jsonl":
            rows = [_letter(json.loads(line)) for line in file.read_text("utf-8").split("\n")[:-1]]
        else:
            rows = [repr(sorted(row.items())) for row in pq.ParquetFile(file).read().to_pylist()]
        found[place] = sorted([*found.get(place, []), *rows])
    return {place: rows for place, rows in found.items() if rows}


def _letter(letter: dict[str, Any]) -> str:
    for name in ("run_id", "openlineage_run_id", "timestamp"):
        assert letter.pop(name)
    return json.dumps(letter, sort_keys=True)


def test_files_written_here_are_read_by_every_reader(here: Ran, spark: SparkSession) -> None:
    files = [
        *here["rows"].folder.glob("adjoint/filtered_keys/**/part-*"),
        *here["digests"].folder.glob("output/part-*"),
    ]
    assert len(files) > 2
    for file in files:
        rows = pq.ParquetFile(file).metadata.num_rows
        assert rows == spark.read.parquet(str(file)).count()
        assert rows == duckdb.sql(f"SELECT count(*) FROM '{file}'").fetchall()[0][0]
        assert _has_checksums(file)


def _has_checksums(file: Path) -> bool:
    """A page with another byte in it is refused."""
    footer = pq.read_metadata(file).row_group(0).column(0)
    data = bytearray(file.read_bytes())
    start = footer.dictionary_page_offset or footer.data_page_offset
    data[start + footer.total_compressed_size - 1] ^= 1
    harmed = file.with_name("harmed")
    harmed.write_bytes(data)
    try:
        pq.ParquetFile(harmed, page_checksum_verification=True).read()
    except OSError:
        return True
    finally:
        harmed.unlink()
    return False


ROWS = {
    "text": pa.array(["", "ä😀", "x" * 500, None, "a"], pa.string()),
    "flag": pa.array([True, False, None, True, False]),
    "tiny": pa.array([-128, 127, 0, None, 1], pa.int8()),
    "small": pa.array([-(2**15), 2**15 - 1, 0, None, 1], pa.int16()),
    "int": pa.array([-(2**31), 2**31 - 1, 0, None, 1], pa.int32()),
    "long": pa.array([-(2**63), 2**63 - 1, 0, None, 1], pa.int64()),
    "float": pa.array([0.1, -0.0, math.nan, None, math.inf], pa.float32()),
    "double": pa.array([0.1, -0.0, math.nan, None, -math.inf], pa.float64()),
    "short_decimal": pa.array(
        [Decimal("-0.01"), Decimal("99.99"), Decimal(0), None, Decimal(1)], pa.decimal128(9, 2)
    ),
    "decimal": pa.array(
        [Decimal("-0.01"), Decimal("1e15"), Decimal(0), None, Decimal(1)], pa.decimal128(18, 2)
    ),
    "long_decimal": pa.array(
        [Decimal("-1e20"), Decimal("127"), Decimal("128"), None, Decimal("-128")],
        pa.decimal128(38, 0),
    ),
    "day": pa.array(
        [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None, date(2024, 2, 29)]
    ),
    "at": pa.array(
        [
            datetime(1960, 1, 1, tzinfo=UTC),
            datetime(2024, 1, 1, 0, 0, 0, 1, UTC),
            None,
            None,
            datetime(9999, 1, 1, tzinfo=UTC),
        ],
        pa.timestamp("us", "UTC"),
    ),
    "local": pa.array(
        [date(1960, 1, 1), date(2024, 1, 1), None, None, date(9999, 1, 1)], pa.date32()
    ).cast(pa.timestamp("us")),
    "bytes": pa.array([b"", b"\x00\xff", None, b"a", b"b" * 100], pa.binary()),
}


def test_content_has_the_digest_that_spark_gives_it(tmp_path: Path, spark: SparkSession) -> None:
    rows = spark.createDataFrame(pa.table(ROWS))
    rows.coalesce(1).write.parquet(str(tmp_path / "output"))
    found = content.measure_files(_never(), tmp_path / "output", rows.schema)
    assert found == content.measure(rows)
    # A difference in any column shows, so that no column stands for another.
    for name in ROWS:
        other = tmp_path / name
        parquet.write(pa.table(ROWS | {name: ROWS[name][::-1]}), other / "part-0.parquet")
        assert content.measure_files(_never(), other, rows.schema) != found, name


@pytest.mark.parametrize("column", ["array(1)", "INTERVAL '1' YEAR"])
def test_content_of_other_types_is_left_to_spark(
    tmp_path: Path, spark: SparkSession, column: str
) -> None:
    rows = spark.range(3).selectExpr(f"{column} AS v")
    rows.write.parquet(str(tmp_path / "output"))
    assert content.measure_files(spark, tmp_path / "output", rows.schema) == content.measure(rows)


class _Never:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError("these files are small and their types are plain")


def _never() -> Any:
    return _Never()


@pytest.mark.parametrize("records", [3, parquet.ROWS + 1])
def test_a_row_that_stands_for_very_many_records_is_left_to_spark(
    tmp_path: Path, records: int
) -> None:
    lanes = {name: [records] for name in digest.NAMES}
    rejections = pa.array([None], pa.list_(pa.string()))
    rows = pa.table({PART: [2], KEY: ["a"], REJECTIONS: rejections, **lanes})
    parquet.write(rows, tmp_path / "part-0.parquet")
    own = EndedColumns(KEY, REJECTIONS, multiplicity=digest.COUNT)
    found = own.read_among([tmp_path / "part-0.parquet"])
    if records > parquet.ROWS:
        assert found is None
    else:
        assert found is not None
        assert found.totals == {2: KeyDigest(*[records] * 5)}
        assert found.of([2])[KEY].to_pylist() == ["a"] * records


LINE = "x" * 10_000


@pytest.mark.parametrize("held", [1 << 20, 1 << 24])
@pytest.mark.parametrize("among", [True, False])
def test_few_rows_of_many_bytes_are_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, among: bool
) -> None:
    """The file shows nothing of it: one long text is in it once."""
    rejections = pa.array([[LINE]] * 500, pa.list_(pa.string()))
    keys = [f"k{n}" for n in range(500)]
    rows = pa.table({PART: [2] * 500, KEY: keys, REJECTIONS: rejections})
    file = tmp_path / "part-0.parquet"
    parquet.write(rows, file, use_dictionary=True)
    assert file.stat().st_size < 1 << 18
    monkeypatch.setattr(parquet, "BYTES", held)
    own = EndedColumns(KEY, REJECTIONS)
    found = own.read_among([file]) if among else own.read({2: tmp_path})
    if held < len(LINE) * 500:
        assert found is None
    else:
        assert found is not None
        assert found.totals == {2: digest_of(keys)}
