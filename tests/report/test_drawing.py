"""The drawing of a flow, and the stopwatch: small things with exact answers."""

from __future__ import annotations

import pytest

from tallyman.control.target.timings import Stopwatch
from tallyman.pages.flow import HEIGHT, PAGE, THINNEST, drawing, equation, ribbons
from tallyman.pages.report import duration, share, size
from tallyman.query.report.flow import FlowShare, RecordFlow

AIRLINE = RecordFlow(
    unit="record",
    opened_by=None,
    count=349_660,
    shares=(
        FlowShare("AGGREGATED", "by flight_date", 345_000),
        FlowShare("FILTERED", "not flown", 4_000),
        FlowShare("ERROR", "failed a rule", 660),
    ),
    unaccounted=0,
)


def test_ribbons_are_as_thick_as_their_share_and_never_too_thin_to_be_seen() -> None:
    thick, thin, thinnest = ribbons(AIRLINE)
    assert thick.thickness == pytest.approx(HEIGHT * 345_000 / 349_660)
    assert thin.thickness == thinnest.thickness == THINNEST
    assert thick.to + thick.thickness <= thin.to
    assert thin.to + thin.thickness <= thinnest.to


def test_what_met_no_fate_is_drawn_too() -> None:
    flow = RecordFlow(
        unit="record", opened_by=None, count=3, shares=(FlowShare("PASSED", "", 1),), unaccounted=2
    )
    assert [(one.fate, one.count) for one in ribbons(flow)] == [("PASSED", 1), ("UNACCOUNTED", 2)]
    assert equation(flow) == "3 in = 1 passed + 2 unaccounted for"
    assert 'class="ribbon unaccounted"' in drawing(flow, PAGE, "x")


def test_nothing_at_all_is_drawn_without_an_error() -> None:
    flow = RecordFlow(unit="record", opened_by=None, count=0, shares=(), unaccounted=0)
    assert equation(flow) == "0 in = 0"
    assert "<svg" in drawing(flow, PAGE, "x")


@pytest.mark.parametrize(
    ("part", "shown"),
    [(0, "0 %"), (1, "100 %"), (660 / 349_660, "0.19 %"), (1e-9, "< 0.01 %"), (0.5, "50 %")],
)
def test_a_share_that_is_not_nothing_is_never_shown_as_nothing(part: float, shown: str) -> None:
    assert share(part) == shown
    assert share(1 - 1e-9) == "> 99.99 %"


def test_times_and_sizes_as_people_read_them() -> None:
    assert [duration(ms) for ms in (None, 7, 1234, 125_000, 7_260_000)] == [
        "–",
        "7 ms",
        "1.2 s",
        "2 min 05 s",
        "2 h 01 min",
    ]
    assert [size(n) for n in (0, 999, 1500, 45_113_692, 2_000_000_000)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "45.1 MB",
        "2.0 GB",
    ]


def test_phases_add_up_and_a_step_covers_the_time_since_the_one_before() -> None:
    now = iter([0.0, 1.0, 4.0, 6.0, 7.0, 9.0])
    watch = Stopwatch(clock=lambda: next(now))
    watch.phase("evaluating")  # at 1
    watch.step("first")  # at 4
    watch.step("second")  # at 6
    watch.step("second")  # at 7: told again when its output was written
    assert watch.stop() == (  # at 9
        {"phase": "opening", "ms": 1000},
        {"phase": "evaluating", "ms": 8000},
        {"up_to_step": "first", "ms": 3000},
        {"up_to_step": "second", "ms": 3000},
    )
