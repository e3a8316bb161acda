"""What is measured in this process is what Spark measures: texts, hashes and digests."""
# ruff: noqa: E501 -- tables and pipelines are read across

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tallyman.engine.evidence import distinct_groups
from tallyman.engine.evidence.distinct_groups import DistinctGroups
from tallyman.engine.evidence.kept import Kept
from tallyman.engine.files import parquet
from tallyman.engine.segment.group_key import group_text as spark_group_text
from tallyman.engine.spark import digest
from tallyman.engine.spark.spark_hash import digest_of
from tallyman.engine.spark.spark_text import NoSparkText, group_text, has_text, texts
from tests.engine.conftest import Ran, Workshop

WORDS = [
    "",
    "a",
    "SEG-0000042",
    "ä€😀",
    "x" * 1000,
    'say "hi"',
    "a\\b",
    "\x00\x1f\x7f\n\t",
    "@f#1",
    None,
]


def test_keys_hash_as_spark_hashes_them(spark: SparkSession) -> None:
    rows = spark.createDataFrame(pa.table({"k": pa.array(WORDS, pa.string())}))
    assert digest_of(WORDS) == digest.of_keys(rows, "k")


def test_keys_that_one_hash_does_not_distinguish_have_other_digests(spark: SparkSession) -> None:
    """Made for the first hash: with it alone, a key could be lost and the other kept twice."""
    alike = ["K9yF83kAkeihI_d7", "fDNnnTqrDBaUxVTM"]
    here = [digest_of([key]) for key in alike]
    assert (here[0].high, here[0].low) == (here[1].high, here[1].low)
    assert here[0] != here[1]
    rows = [spark.createDataFrame([(key,)], "k string") for key in alike]
    assert [digest.of_keys(keys, keys.columns[0]) for keys in rows] == here


def test_groups_of_many_batches_are_collected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With merges in between: as many groups as batches know, each with one text."""
    monkeypatch.setattr(distinct_groups, "MANY", 7)
    monkeypatch.setattr(parquet, "BATCH", 4)  # the digest is that of several pieces
    found, expected = DistinctGroups(), set[str]()
    for batch in range(20):
        days = [None if n == 3 else batch + n for n in range(6)] * 2
        names = ["a", None] * 6
        columns = [pa.array(days, pa.int32()), pa.array(names, pa.string())]
        found.add(pa.StructArray.from_arrays(columns, ["day", "name"]))
        shown = [None if day is None else str(day) for day in days]
        expected |= {group_text(["day", "name"], row) for row in zip(shown, names, strict=True)}
    assert found.merged > 7
    assert found.digest() == digest_of(expected)
    assert len(found) == len(expected)


def test_values_read_as_spark_reads_them(spark: SparkSession) -> None:
    table = pa.table(
        {
            "text": pa.array([*WORDS[:5], None], pa.string()),
            "small": pa.array([-128, 0, 127, 1, 2, None], pa.int8()),
            "long": pa.array([-(2**63), 0, 2**63 - 1, 1, 2, None], pa.int64()),
            "flag": pa.array([True, False, True, False, True, None]),
            "day": pa.array(
                [
                    date(1, 1, 1),
                    date(1969, 12, 31),
                    date(9999, 12, 31),
                    *[date(2024, 2, 29)] * 2,
                    None,
                ]
            ),
            "money": pa.array(
                [Decimal(n) for n in ("0.00", "-0.01", "12345678.90", "1e8", "0.10")] + [None],
                pa.decimal128(18, 2),
            ),
            "tiny": pa.array(
                [Decimal(n) for n in ("0", "1e-10", "-1e-10", "1.5", "2")] + [None],
                pa.decimal128(18, 10),
            ),
            "at": pa.array(
                [datetime(2024, 1, 2, 3, 4, 5, us, UTC) for us in (0, 1, 500000, 120000, 999999)]
                + [None],
                pa.timestamp("us", "UTC"),
            ),
            "local": pa.array(
                [
                    datetime(2024, 1, 2, 3, 4, 5, us, UTC).replace(tzinfo=None)
                    for us in (0, 1, 500000, 120000, 999999)
                ]
                + [None],
                pa.timestamp("us"),
            ),
        }
    )
    rows = spark.createDataFrame(table)
    assert all(has_text(field.type) for field in table.schema)
    shown = rows.select(*(F.col(n).cast("string").alias(n) for n in table.column_names)).collect()
    for name in table.column_names:
        assert texts(table[name]) == [row[name] for row in shown], name


def test_groups_are_called_as_spark_calls_them(spark: SparkSession) -> None:
    names = ["a b", 'q"', "ü"]
    values = [(x, y, z) for x in WORDS for y in ("1", None) for z in ("\x1f\x7f/",)]
    columns = [pa.array([v[n] for v in values], pa.string()) for n in range(3)]
    rows = spark.createDataFrame(pa.table(columns, names=names))
    spelled = spark_group_text(names, [f"`{name}`" for name in names])
    assert [group_text(names, v) for v in values] == [
        r[0] for r in rows.selectExpr(spelled).collect()
    ]


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.binary(), pa.list_(pa.int32()), pa.timestamp("ns")]
)
def test_other_types_are_left_to_spark(kind: pa.DataType) -> None:
    with pytest.raises(NoSparkText):
        texts(pa.array([None], kind))


PIPELINE = """
ANY = dict(thresholds=dict(absolute=0, percentage=1))
tm.source("sales", "data/sales.json", key="id",
    schema="id string, shop string, price int, day date, tags array<string>")

@tm.asset(**ANY)
def rows(sales):
    return sales.filter("price > 2", name="cheap").expect("bounded", "price < 90").expect("even", "price % 2 = 0")

@tm.asset(**ANY)
def groups(sales):
    return sales.groupBy("shop", "day").agg(total="sum(price)", name="by").expect("less", "total < 50").filter("total > 9", name="more")

@tm.asset(**ANY)
def plain_groups(sales):
    return sales.groupBy("shop", "day").agg(total="sum(price)", name="by")

@tm.asset(**ANY, evidence="digest")
def digests(sales):
    return sales.filter("price > 2", name="cheap").groupBy("shop").agg(total="sum(price)", name="by")

@tm.asset(**ANY)
def children(sales):
    return sales.explode("tags", "tag", outer=True, name="tags").filter("tag <> 'x'", name="no_x").expect("short", "length(tag) < 2")

@tm.asset(**ANY)
def working(sales):
    return sales.update({"price": "price + 1"}, where="shop = 'a'").delete("price < 3", name="low").aggregate(["shop"], price="sum(price)", name="sums")
"""
ASSETS = ["groups", "digests", "working", "rows", "plain_groups", "children"]


@pytest.fixture(scope="module")
def ran(workshop: Callable[..., Workshop]) -> Ran:
    sales = [
        {
            "id": f"s{n}",
            "shop": [*"abc", None][n % 4],
            "price": n % 100,
            "day": f"2024-01-0{1 + n % 3}",
            "tags": ["x", "y", "zz"][: n % 4],
        }
        for n in range(300)
    ]
    return workshop(interpreted=True).pipeline(PIPELINE).lines("sales.json", sales).run(*ASSETS)


@pytest.mark.parametrize("asset", ASSETS)
def test_spark_and_this_process_measure_the_same(ran: Ran, spark: SparkSession, asset: str) -> None:
    here = Kept(ran[asset].folder, _never)
    there = Kept(ran[asset].folder, lambda: spark, limit=0)
    assert ran.asset(asset).status == "success"
    assert here.letters() == there.letters()
    for partition in _partitions(ran, asset):
        place = partition["adjoint_location"]
        match partition["partition_type"]:
            case "FILTERED":
                assert here.keys(place) == there.keys(place)
            case "EXPLODED":
                assert here.children(place) == there.children(place)
            case "AGGREGATED":
                assert here.grouped(place) == there.grouped(place)
                assert asset == "digests" or here.pairs(place) == there.pairs(place)
            case "PASS_THROUGH" if here.output_has_keys:
                key = partition.get("key_columns", ())
                assert here.passed(key) == there.passed(key)
            case "PASS_THROUGH":
                by = ["shop"] if asset == "digests" else ["shop", "day"]
                assert here.group_rows(by) == there.group_rows(by)


def _never() -> SparkSession:
    raise AssertionError("these files are small and their types are plain")


def _partitions(ran: Ran, asset: str) -> list[dict[str, object]]:
    ledger = ran[asset].ledger
    levels = [ledger["output_accounting"], *ledger["sub_ledgers"]]
    found = [part for level in levels for part in level["partitions"]]
    assert sum(part["record_count"] for part in found) > 0
    return found


def test_a_column_of_keys_with_a_null_is_counted(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "k.parquet").mkdir()
    pq.write_table(
        pa.table({"source_key": pa.array(["a", None], pa.string())}),
        tmp_path / "k.parquet" / "0.parquet",
    )
    here, there = Kept(tmp_path, _never), Kept(tmp_path, lambda: spark, limit=0)
    assert here.keys("k.parquet") == there.keys("k.parquet")
    assert here.keys("k.parquet").count == 2
