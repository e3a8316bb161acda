"""Expected changes against a trace: each kind of mismatch, by its name."""

from __future__ import annotations

import itertools
from datetime import date
from decimal import Decimal

import pytest

from tallyman.testing import Mismatch, RowChange, TallyKit, compare_trace
from tests.testing.sales import close

TRACE = [
    RowChange(10, "updated", {"id": 1, "amount": 10}, {"amount": (5, 10)}),
    RowChange(10, "updated", {"id": 2, "amount": 14}, {"amount": (7, 14)}),
    RowChange(20, "deleted", {"id": 3, "amount": -1}, {"_deleted": (False, True)}),
]


def test_a_trace_is_what_is_expected_in_any_order() -> None:
    expected = [
        RowChange(20, "deleted", {"id": 3}),
        RowChange(10, "updated", {"id": 2}, {"amount": (7, 14)}),
        RowChange(10, "updated", {"id": 1}),
    ]
    for order in itertools.permutations(expected):
        assert compare_trace(TRACE, order) == []
    assert compare_trace(TRACE, TRACE) == []


def test_an_expectation_that_fits_many_rows_leaves_the_row_to_one_that_fits_it_alone() -> None:
    loose, exact = RowChange(10, "updated", {}), RowChange(10, "updated", {}, {"amount": (5, 10)})
    for order in ([loose, exact], [exact, loose]):
        assert compare_trace(TRACE[:2], order) == []


def test_what_the_trace_lacks_is_a_missing_event() -> None:
    [found] = compare_trace(TRACE, [*TRACE, RowChange(30, "created", {"id": 4})])
    assert found == Mismatch("missing_event", 30, "created", {"id": 4})
    assert str(found) == "missing_event: step 30 created {'id': 4}"


def test_what_nobody_expected_is_an_extra_event() -> None:
    [found] = compare_trace(TRACE, TRACE[:2])
    assert found == Mismatch("extra_event", 20, "deleted", {"id": 3, "amount": -1})


@pytest.mark.parametrize("step", [20, 30])
def test_the_same_change_by_another_step_is_missing_there_and_extra_here(step: int) -> None:
    found = compare_trace(TRACE, [RowChange(step, "updated", {"id": 1}), *TRACE[1:]])
    assert [(m.kind, m.step) for m in found] == [("missing_event", step), ("extra_event", 10)]


def test_a_row_with_other_values_is_a_diff_mismatch_with_its_columns() -> None:
    wrong = RowChange(10, "updated", {"id": 1}, {"amount": (5, 11), "currency": ("EUR", "USD")})
    [found] = compare_trace(TRACE, [wrong, *TRACE[1:]])
    assert (found.kind, found.step, found.row) == ("diff_mismatch", 10, {"id": 1})
    assert found.columns == {
        "amount": {"expected": (5, 11), "actual": (5, 10)},
        "currency": {"expected": ("EUR", "USD"), "actual": None},
    }
    assert str(found) == (
        "diff_mismatch: step 10 updated {'id': 1}; amount: expected 5 -> 11, actual 5 -> 10; "
        "currency: expected 'EUR' -> 'USD', actual no change"
    )


def test_a_column_that_changed_and_was_not_expected_is_a_diff_mismatch() -> None:
    two = RowChange(
        10, "updated", {"id": 1, "amount": 10}, {"amount": (5, 10), "note": (None, "x")}
    )
    [found] = compare_trace([two], [TRACE[0]])
    assert found.columns == {"note": {"expected": None, "actual": (None, "x")}}


def test_a_trace_of_a_run_has_every_step_and_names_what_is_not_as_expected(tally: TallyKit) -> None:
    day = date(2026, 1, 1)
    rows = [
        {"order_id": "A", "day": day, "country": "NL", "amount": Decimal("2.50")},
        {"order_id": "B", "day": day, "country": "BE", "amount": "-1"},
        {"order_id": "C", "day": day, "country": "BE", "amount": "3"},
    ]
    made = tally.run(close, {"orders": rows})
    doubled = {"amount": (Decimal("2.50"), Decimal("5.00"))}
    expected = [
        RowChange(10, "updated", {"order_id": "A"}, doubled),
        RowChange(20, "deleted", {"order_id": "B"}),
        RowChange(30, "created", {"country": "NL", "amount": Decimal("5.00")}),
        RowChange(30, "created", {"country": "BE", "amount": Decimal("3.00")}),
    ]
    made.expect_trace(expected)
    made.expect_trace(made.trace)
    assert [(c.step, c.row["order_id"]) for c in made.trace[:2]] == [(10, "A"), (20, "B")]
    assert made.fates == {"PASSED": 2, "FILTERED": 1}
    with pytest.raises(AssertionError) as error:
        made.expect_trace([RowChange(10, "updated", {"order_id": "C"}), *expected[1:]])
    assert str(error.value).splitlines()[:2] == [
        "close: the trace has 2 mismatches",
        "  missing_event: step 10 updated {'order_id': 'C'}",
    ]
