"""Which words of an expression are the clock, and which only look like it; without Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tallyman.engine.expressions.clock import pinned, reads_clock

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
T = "TIMESTAMP '2026-01-02 03:04:05Z'"
D = f"CAST({T} AS DATE)"
COLUMNS = ("id", "now", "d", "place", "user")

REPLACED = {
    "now()": T,
    "`Now` /* a /* nested */ comment */ ( )": T,
    "system.builtin.now() + interval 1 day": f"{T} + interval 1 day",
    "localtimestamp()": f"CAST({T} AS TIMESTAMP_NTZ)",
    "unix_timestamp() - n": "1767323045L - n",
    "curdate()": D,
    "d=CURRENT_DATE--x": f"d={D}--x",
    "CASE current_date WHEN d THEN `current_date` ELSE d END": f"CASE {D} WHEN d THEN {D} ELSE d END",  # noqa: E501
    "d BETWEEN current_date AND current_date()": f"d BETWEEN {D} AND {D}",
    "max(now()) OVER (PARTITION BY current_date)": f"max({T}) OVER (PARTITION BY {D})",
    "current_timestamp AS current_date": f"{T} AS current_date",
    "now()::date": f"{T}::date",
    r"concat('it\'s', '''', now())": rf"concat('it\'s', '''', {T})",
    "r'\\' || now()": f"r'\\' || {T}",
}
LEFT_ALONE = (
    *("now", "`now`", "place.now", "place.current_date", "details:current_date", "upper(NOW)"),
    *("'now()'", '"current_date()"', "'it''s now()'", r"'\'now()'", "r'now()'", "`now()`"),
    *("-- now()", "id /* current_date */", "id -- now()\n + 1", "id current_date"),
    *("id AS current_date", "mine.now()", "unix_timestamp(t)", "transform(a, now -> now + 1)"),
    *("named_struct('now', 1)", "f(current_date => 1)", "current_timezone()"),
)


@pytest.mark.parametrize(("text", "expected"), REPLACED.items())
def test_the_clock_becomes_a_literal_of_its_type(text: str, expected: str) -> None:
    assert pinned(text, NOW, COLUMNS) == expected
    assert reads_clock(text)


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_only_looks_like_the_clock_is_left_alone(text: str) -> None:
    assert pinned(text, NOW, COLUMNS) == text


def test_a_column_of_that_name_comes_first_and_without_columns_it_may_be_the_clock() -> None:
    assert pinned("current_date", NOW, ["Current_Date"]) == "current_date"
    assert reads_clock("current_date")
