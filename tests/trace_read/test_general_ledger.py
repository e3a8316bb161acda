"""The reference scenario, every number of it, as the trace tells it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tallyman.domain.history.trace import TraceRecord
from tallyman.errors import StepOutOfRange
from tallyman.query.trace.asset import Trace
from tests.trace.general_ledger import LINES
from tests.trace_read import general_ledger
from tests.trace_read.general_ledger import SEQS
from tests.trace_read.layout import RUN_UUID, RunFiles, row_id

STARTED = datetime(2026, 2, 1, tzinfo=UTC)


def amounts(state: Any) -> tuple[str, str, bool]:
    return str(state["amount_local"]), str(state["amount_reporting"]), state["_deleted"]


def test_all_records_are_24_of_steps_and_7_baselines(closed: Trace) -> None:
    records = list(closed.records())
    kinds = Counter((r.operation_seq == 0, r.change_type.value) for r in records)
    assert kinds == {
        (False, "updated"): 15,
        (False, "deleted"): 2,
        (False, "created"): 7,
        (True, "created"): 7,
    }
    assert Counter(r.operation_seq for r in records) == {
        0: 7,
        10: 6,
        20: 6,
        30: 2,
        40: 4,
        50: 3,
        60: 3,
    }
    assert {r.run_id for r in records} == {UUID(RUN_UUID)}
    assert TraceRecord.__slots__ == (
        *("run_id", "operation_seq", "row_id", "change_type", "before", "after"),
    )


def test_the_history_of_a_row_is_told_step_by_step(closed: Trace) -> None:
    history = closed.row(row_id("JE-002/2")).history()
    assert [(e.operation_seq, e.change_type.value) for e in history] == [
        (10, "updated"),
        (20, "updated"),
        (30, "deleted"),
    ]
    assert [e.diff for e in history] == [
        {"amount_reporting": {"old": None, "new": Decimal("-9282.00")}},
        {"amount_local": {"old": Decimal("-8500.00"), "new": Decimal("-8925.00")}},
        {"_deleted": {"old": False, "new": True}},
    ]
    assert [amounts(e.full_state) for e in history] == [
        ("-8500.00", "-9282.00", False),
        ("-8925.00", "-9282.00", False),
        ("-8925.00", "-9282.00", True),
    ]
    assert history.diagnostic is None


def test_the_baseline_is_no_step_but_can_be_shown(closed: Trace) -> None:
    row = closed.row(row_id("JE-004/2"))
    assert [e.operation_seq for e in row.history()] == [30]
    first = row.history(include_baseline=True)[0]
    assert (first.operation_seq, first.change_type.value) == (0, "created")
    assert {name: both["new"] for name, both in first.diff.items()} == LINES["JE-004/2"]
    assert all(both["old"] is None for both in first.diff.values())
    with pytest.raises(StepOutOfRange):
        row.at_step(0)


def test_a_row_can_be_seen_behind_any_step(closed: Trace) -> None:
    row = closed.row(row_id("JE-002/2"))
    seen = {seq: row.at_step(seq).state for seq in SEQS}
    assert amounts(seen[10]) == ("-8500.00", "-9282.00", False)
    assert amounts(seen[20]) == ("-8925.00", "-9282.00", False)
    assert [amounts(seen[seq]) for seq in (30, 40, 70)] == [("-8925.00", "-9282.00", True)] * 3
    # The aggregate of step 40 added two columns, without changing the row.
    assert set(seen[40] or {}) - set(seen[30] or {}) == {"total_reporting", "line_count"}

    untouched_yet = closed.row(row_id("JE-004/2")).at_step(10).state
    assert untouched_yet == {
        "_row_id": UUID(row_id("JE-004/2")),
        **LINES["JE-004/2"],
        "_deleted": False,
        "_updated_at": None,
    }
    assert (seen[10] or {})["_updated_at"] == STARTED


def test_a_row_made_by_a_step_is_not_there_before_it(closed: Trace) -> None:
    budget = closed.row(row_id("4100", 5))
    assert (budget.at_step(60).state or {})["description"] == "BUDGET"
    created = budget.at_step(50).state or {}
    assert (created["description"], created["_updated_at"]) == (None, None)
    early = budget.at_step(40)
    assert early.state is None
    assert early.diagnostic is not None
    assert (early.diagnostic.code, early.diagnostic.facts) == (
        "RowNotYetCreated",
        {"created_at_seq": 50},
    )
    total = closed.row(row_id("USD", 4)).history()
    assert [e.operation_seq for e in total] == [40]
    assert total[0].diff["total_reporting"] == {"old": None, "new": Decimal("33200.00")}


def test_rows_are_found_by_the_values_they_came_in_with(closed: Trace) -> None:
    assert closed.find({"journal_id": "JE-002", "line": "2"}) == [UUID(row_id("JE-002/2"))]
    assert len(closed.find({"journal_id": "JE-003"}, "gl_close")) == 2
    assert closed.find({"journal_id": "null", "account": "4100"}) == [UUID(row_id("4100", 5))]
    assert closed.find({"currency": "USD", "total_reporting": "33200.00"}) == [
        UUID(row_id("USD", 4))
    ]
    assert closed.find({"journal_id": "JE-001"}) == []  # no step touched it
    assert closed.find({"description": "it's {odd} '"}) == []


def test_a_run_that_failed_at_a_step_tells_the_steps_before(tmp_path: Any) -> None:
    run = RunFiles(tmp_path)
    general_ledger.write(run, until=20)
    run.targets[0]["status"] = "failed"
    with Trace(run.ended("failed").open()) as trace:
        records = list(trace.records())
        assert Counter(r.operation_seq for r in records) == {0: 6, 10: 6, 20: 6}
        row = trace.row(row_id("JE-002/2"))
        assert [e.operation_seq for e in row.history()] == [10, 20]
        assert [s.complete for s in trace.steps()] == [True, True, *[False] * 5]
        answers = (row.at_step(30).diagnostic, trace.changes("gl_close", 30).diagnostic)
        assert [(d.code, d.facts) for d in answers if d] == [
            ("StepNotComplete", {"last_completed_operation": 20})
        ] * 2
