"""Values come back as they were, and states follow the columns of each step."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tallyman.domain.history.trace import plain
from tallyman.errors import UsageError
from tallyman.query.trace.asset import Trace
from tests.trace_read.layout import RunFiles, row_id

INSTANT = datetime(2026, 1, 31, 23, 59, 59, 123456, tzinfo=UTC)
ROW = row_id("a")
TYPES: dict[str, pa.DataType] = {
    "money": pa.decimal128(38, 2),
    "rate": pa.decimal128(10, 5),
    "day": pa.date32(),
    "at": pa.timestamp("us", tz="UTC"),
    "local": pa.timestamp("us"),
    "list": pa.list_(pa.decimal128(10, 2)),
    "place": pa.struct([("city", pa.string()), ("since", pa.timestamp("us", tz="UTC"))]),
    "map": pa.map_(pa.string(), pa.timestamp("us", tz="UTC")),
    "raw": pa.binary(),
    "flag": pa.bool_(),
    "text": pa.string(),
    "far": pa.date32(),
}
VALUES: dict[str, Any] = {
    "money": Decimal("9282.00"),
    "rate": Decimal("0.00000"),
    "day": date(2026, 1, 31),
    "at": INSTANT,
    "local": INSTANT.replace(tzinfo=None),
    "list": [Decimal("1.10"), None],
    "place": {"city": "Bern", "since": INSTANT},
    "map": {"begun": INSTANT},
    "raw": b"\x00\xff",
    "flag": False,
    "text": "",
    "far": date(9999, 12, 31),
}


@pytest.fixture
def typed(tmp_path: Path) -> Trace:
    run = RunFiles(tmp_path)
    files = run.target("typed", TYPES).step(10, "update", assigned=TYPES).begin()
    files.complete(
        10,
        updated={ROW: {name: (None, value) for name, value in VALUES.items() if name != "far"}},
        baseline={ROW: {"far": VALUES["far"]}},
    )
    return Trace(run.ended().open())


def test_values_keep_their_types(typed: Trace) -> None:
    history = typed.row(ROW).history(include_baseline=True)
    state = {n: v for n, v in history[1].full_state.items() if not n.startswith("_")}
    assert state == VALUES
    assert [(type(v), str(v)) for v in state.values()] == [
        (type(v), str(v)) for v in VALUES.values()
    ]
    assert history[0].full_state["at"] is None
    # What did not change is not in the record, though both its sides are NULL.
    assert "far" not in history[1].diff


def test_values_are_exact_in_json(typed: Trace) -> None:
    state = json.loads(json.dumps(plain(typed.row(ROW).at_step(10).state)))
    assert {n: v for n, v in state.items() if not n.startswith("_")} == {
        "money": "9282.00",
        "rate": "0.00000",
        "day": "2026-01-31",
        "at": "2026-01-31T23:59:59.123456+00:00",
        "local": "2026-01-31T23:59:59.123456",
        "list": ["1.10", None],
        "place": {"city": "Bern", "since": "2026-01-31T23:59:59.123456+00:00"},
        "map": {"begun": "2026-01-31T23:59:59.123456+00:00"},
        "raw": "00ff",
        "flag": False,
        "text": "",
        "far": "9999-12-31",
    }
    assert plain(float("nan")) == "nan"


def test_a_changed_null_is_told_from_a_column_that_did_not_change(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    columns = {"a": pa.int32(), "b": pa.int32()}
    files = run.target("nulls", columns).step(10, "update", assigned=columns).begin()
    files.complete(10, updated={ROW: {"a": (1, None)}}, baseline={ROW: {"a": 1, "b": None}})
    with Trace(run.ended().open()) as trace:
        assert trace.row(ROW).history()[0].diff == {"a": {"old": 1, "new": None}}
        (record,) = trace.changes("nulls", 10)
        assert (record.before, record.after) == ({"a": 1}, {"a": None})


def test_a_date_beyond_python_comes_as_text(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    days = {"day": pa.date32(), "n": pa.decimal128(5, 2)}
    files = run.target("far", days).step(10, "delete").begin()
    start = {ROW: {"day": 4_000_000, "n": Decimal("1.50")}}
    files.complete(10, deleted=[ROW], baseline=start)
    with Trace(run.ended().open()) as trace:
        state = trace.row(ROW).at_step(10).state or {}
        assert (state["day"], state["n"]) == ("12921-08-18", Decimal("1.50"))


def test_columns_are_renamed_dropped_and_added_on_the_way(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    loaded = {"id": pa.string(), "cost": pa.int32(), "junk": pa.string()}
    files = run.target("shapes", loaded)
    files.step(10, "drop", columns={"id": pa.string(), "cost": pa.int32()})
    dearer = {"id": pa.string(), "price": pa.int32()}
    files.step(20, "withColumnRenamed", renamed={"cost": "price"}, columns=dearer)
    files.step(30, "update", assigned={"price": pa.int32(), "junk": pa.int64()})
    files.step(40, "withColumnRenamed", renamed={"id": "price", "price": "id"}).begin()
    changed = {"price": (7, 8), "junk": (None, 5)}
    files.complete(10).complete(20)
    files.complete(30, updated={ROW: changed}, baseline={ROW: {"id": "a", "cost": 7, "junk": "x"}})
    files.complete(40)
    with Trace(run.ended().open()) as trace:
        row = trace.row(ROW)
        states = {seq: row.at_step(seq).state or {} for seq in (10, 20, 30, 40)}
        shown = {
            seq: {name: value for name, value in state.items() if not name.startswith("_")}
            for seq, state in states.items()
        }
        assert shown == {
            10: {"id": "a", "cost": 7},
            20: {"id": "a", "price": 7},
            30: {"id": "a", "price": 8, "junk": 5},
            40: {"id": 8, "price": "a", "junk": 5},  # both at once
        }
        assert trace.find({"junk": "x"}) == trace.find({"cost": "7"}) != []


def test_redacted_values_are_shown_as_they_are_kept_and_not_looked_up(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    files = run.target("people", {"name": pa.string(), "ssn": pa.string()}, redacted=["ssn"])
    files.step(10, "delete").begin()
    files.complete(10, deleted=[ROW], baseline={ROW: {"name": "Eve", "ssn": "redacted:0a1b"}})
    with Trace(run.ended().open()) as trace:
        assert (trace.row(ROW).at_step(10).state or {})["ssn"] == "redacted:0a1b"
        with pytest.raises(UsageError, match="ssn is redacted"):
            trace.find({"ssn": "123-45"})
