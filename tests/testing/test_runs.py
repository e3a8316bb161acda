"""Assets and pipelines run on given rows: what is given, what is made, and what is left alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tallyman as tm
from tallyman.errors import KeysRepeat, TooManyRejected, UsageError
from tallyman.testing import MadeAsset, TallyKit
from tests.testing.sales import by_country, by_day, clean, countries, of_day, orders, rated

DAY = date(2026, 1, 2)
ORDERS: list[Any] = [
    {"order_id": "A", "day": "2026-01-02", "country": "NL", "amount": "5"},
    {"order_id": "B", "day": DAY, "country": "NL", "amount": Decimal("2.50")},
    {"order_id": "C", "day": DAY, "country": "BE", "amount": "five"},
    {"order_id": "D", "day": "2025-01-01", "country": "BE", "amount": 1},
    {"order_id": "E", "day": DAY, "country": "XX", "amount": 1},
    '{"order_id": "F", "amo',
    b'\xff{"order_id": 7}',
]
COUNTRIES = [{"code": "NL", "name": "Netherlands"}, {"code": "BE", "name": "Belgium"}]


@pytest.fixture(scope="module")
def made() -> Iterator[dict[str, MadeAsset]]:
    """One run of three assets, for every question about it."""
    declared = [orders, countries, clean, by_country, by_day]
    with TallyKit() as tally:
        yield tally.run_pipeline(declared, {"orders": ORDERS, "countries": COUNTRIES})


def test_every_record_has_a_fate_and_is_known_by_its_key(made: dict[str, MadeAsset]) -> None:
    assert made["clean"].fates == {"PASSED": 3, "FILTERED": 1, "ERROR": 3}
    assert made["clean"].keys == {
        "PASSED": ["A", "B", "E"],
        "FILTERED": ["D"],
        "ERROR": ["@orders.json#7", "C", "F"],
    }
    assert made["by_country"].keys == {"ERROR": ["E"], "AGGREGATED": ["A", "B"]}
    assert made["by_day"].fates == {"AGGREGATED": 3}
    with pytest.raises(UsageError, match=r"by_day has evidence=.digest.: it keeps no keys"):
        _ = made["by_day"].keys


def test_rejections_say_which_rule_was_broken(made: dict[str, MadeAsset]) -> None:
    found = [(r.source_key, r.error_type, r.rule) for r in made["clean"].rejections]
    assert found == [
        ("@orders.json#7", "parse_error", "orders.line"),
        ("C", "type_cast_error", "orders.amount"),
        ("F", "parse_error", "orders.line"),
    ]
    [unmatched] = made["by_country"].rejections
    assert (unmatched.source_key, unmatched.error_type) == ("E", "join_error")


def test_rows_are_in_the_order_of_the_key_with_the_types_of_their_columns(
    made: dict[str, MadeAsset],
) -> None:
    assert [row["order_id"] for row in made["clean"].rows] == ["A", "B", "E"]
    assert repr(made["by_country"].rows) == repr(
        [{"country": "NL", "name": "Netherlands", "total": Decimal("7.50"), "orders": 2}]
    )


def test_an_asset_can_start_at_the_rows_of_another(tally: TallyKit) -> None:
    given = {"order_id": "Z", "day": DAY, "country": "BE", "amount": Decimal("1.00")}
    made = tally.run(by_country, {"clean": [given], "countries": COUNTRIES})
    assert made.rows == [
        {"country": "BE", "name": "Belgium", "total": Decimal("1.00"), "orders": 1}
    ]


def test_csv_parquet_and_tables_are_read_as_their_files_would_be(tally: TallyKit) -> None:
    odd = ['a,"b"', "back\\slash", '\\"', " blank ", "", "é", None]
    made = tally.run_pipeline(
        [countries, tm.asset(key="code")(same_countries)],
        {"countries": [{"code": f"{n}", "note": note} for n, note in enumerate(odd)] + ['"7,x",,']},
    )
    same = made["same_countries"]
    # Spark reads an empty text in CSV as NULL.
    assert [row["note"] for row in same.rows] == [text or None for text in odd] + [None]
    assert same.rows[-1]["code"] == "7,x"
    made_from_table = tally.run(
        rated,
        {
            "rates": [{"country": "NL", "rate": 2.0}, {"country": None, "rate": 0.5}],
            "notes": [{"country": "NL", "text": "high"}],
        },
    )
    assert made_from_table.rows == [{"country": "NL", "rate": 2.0, "text": "high"}]
    assert made_from_table.waits_for_approval
    [rejected] = made_from_table.rejections
    assert (rejected.source_key, rejected.error_type) == ("@rates.parquet#2", "null_error")


def same_countries(countries: tm.Frame) -> tm.Frame:
    return countries


def test_one_partition_is_made_at_the_time_that_is_given(tally: TallyKit) -> None:
    rows = [
        {"order_id": "A", "day": DAY},
        {"order_id": "B", "day": "2026-01-03"},
        {"order_id": "C"},
    ]
    at = datetime(2026, 1, 12, 9, tzinfo=UTC)
    made = tally.run(of_day, {"orders": rows}, partition="2026-01-02", at=at)
    assert made.rows == [{"order_id": "A", "day": DAY, "age": 10}]
    assert made.keys == {"PASSED": ["A"], "FILTERED": ["B"], "ERROR": ["C"]}


def test_a_source_with_a_partition_in_its_path_has_the_rows_of_that_partition(
    tally: TallyKit,
) -> None:
    daily = tm.source("daily", "data/{partition}/x.json", schema="id int, day date", key="id")

    @tm.asset(key="id", partitioned_by=tm.daily("day", start="2026-01-01"))
    def sliced(daily: tm.Frame) -> tm.Frame:
        return daily

    rows = [{"id": 1, "day": "2026-01-02"}, {"id": 2, "day": "2026-01-03"}]
    made = tally.run_pipeline([daily, sliced], {"daily": rows}, partition="2026-01-02")["sliced"]
    assert made.keys == {"PASSED": ["1"], "ERROR": ["2"]}
    assert [r.error_code for r in made.rejections] == ["WRONG_PARTITION"]


def test_thresholds_hold_where_the_test_says_so(tally: TallyKit) -> None:
    bad = {"orders": [{"order_id": "A", "day": DAY, "amount": -1}, {"order_id": "B", "day": DAY}]}
    assert tally.run(clean, bad).fates == {"ERROR": 2}
    with pytest.raises(TooManyRejected) as error:
        tally.run(clean, bad, thresholds="declared")
    assert str(error.value) == "clean: 2 of 2 records were rejected (100 %); the threshold is 5 %."
    assert (error.value.errors, error.value.total) == (2, 2)


def test_a_failure_is_raised_as_the_run_would_report_it(tally: TallyKit) -> None:
    row = {"order_id": "A", "day": DAY, "country": "NL", "amount": 1}
    with pytest.raises(KeysRepeat, match="2 rows share 1 value"):
        tally.run(clean, {"orders": [row, row]})


@pytest.mark.usefixtures("made")
def test_a_dataframe_is_taken_row_by_row(tally: TallyKit) -> None:
    given = SparkSession.active().sql(
        "SELECT 'A' AS order_id, DATE'2026-01-02' AS day, 5 AS amount"
    )
    assert tally.run(clean, {"orders": given}).keys == {"PASSED": ["A"]}


@pytest.mark.usefixtures("made")
def test_the_session_that_is_there_is_used_and_left_as_it_was(tally: TallyKit) -> None:
    session = SparkSession.active()
    names = ("spark.sql.ansi.enabled", "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")
    before = {name: session.conf.get(name) for name in names}
    strange = {names[0]: "false", names[1]: "7", names[2]: "true"}
    try:
        for name, value in strange.items():
            session.conf.set(name, value)
        # Without ANSI rules 'x' would be NULL, and no error.
        raising = tm.asset(name="raising")(lambda orders: orders.withColumn("n", "int(country)"))
        rows = [{"order_id": "A", "country": "x"}]
        with pytest.raises(tm.TallymanError, match="raising stopped"):
            tally.run_pipeline([orders, raising], {"orders": rows})
        assert {name: SparkSession.active().conf.get(name) for name in names} == strange
    finally:
        for name, value in before.items():
            session.conf.set(name, str(value))


def test_nothing_is_left_behind_and_no_database_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with TallyKit() as tally:
        tally.run(clean, {"orders": ORDERS})
        inside = [path.name for path in tmp_path.rglob("*")]
        assert "ledger.json" in inside
        assert not [name for name in inside if name.startswith(("postgres", "PG", ".tallyman"))]
    assert os.listdir(tmp_path) == []
