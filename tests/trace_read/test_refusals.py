"""Questions without an answer: which are empty and say why, and which are refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tallyman.errors import (
    NotFound,
    NoTrace,
    RunNotFinished,
    StepOutOfRange,
    TraceCorrupt,
    UsageError,
)
from tallyman.query.trace.asset import Trace
from tests.trace.general_ledger import LINES
from tests.trace_read import general_ledger
from tests.trace_read.general_ledger import SEQS
from tests.trace_read.layout import RunFiles, TargetFiles, row_id

ROW = row_id("JE-002/2")
NOBODY = "019c1681-2000-7000-8000-000000000000"


# ---- empty answers ---------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [row_id("JE-001/1"), NOBODY, row_id("nothing", 40)])
def test_a_row_without_records_is_an_empty_answer_that_says_so(closed: Trace, missing: str) -> None:
    history = closed.row(missing).history()
    assert list(history) == []
    assert history.diagnostic is not None
    assert history.diagnostic.code == "RowNotFound"
    assert "never changed by this run, or does not exist" in str(history.diagnostic)
    at = closed.row(missing).at_step(20)
    assert (at.state, at.diagnostic) == (None, history.diagnostic)


def test_the_trace_of_a_canceled_run_is_empty(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    run.untraced("gl_close")
    trace = Trace(run.ended("canceled").open())
    answers = (
        trace.row(ROW).history(),
        trace.row(ROW).at_step(10),
        trace.changes("gl_close", 10),
        trace,
    )
    assert {a.diagnostic.code for a in answers if a.diagnostic} == {"RunCancelled"}
    assert len(answers[0]) == len(answers[2]) == len(list(trace.records())) == 0
    assert (trace.overview(), trace.steps(), trace.find({"a": "1"})) == ([], [], [])


# ---- refusals --------------------------------------------------------------------------------


def test_a_step_that_is_none_is_refused_with_those_there_are(closed: Trace) -> None:
    for ask in (closed.row(ROW).at_step, lambda step: closed.changes("gl_close", step)):
        for step in (15, 0, -10, 80):
            with pytest.raises(StepOutOfRange) as refused:
                ask(step)
            assert refused.value.valid == SEQS
            assert "10, 20, 30, 40, 50, 60, 70" in str(refused.value)


def test_a_run_that_has_not_ended_is_refused(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    general_ledger.write(run, until=20)
    with pytest.raises(RunNotFinished):
        Trace(run.begun().open())


def test_what_has_no_trace_says_why(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    general_ledger.write(run)
    run.untraced("plain")
    run.untraced("broken", status="failed")
    with Trace(run.ended("failed").open()) as trace:
        with pytest.raises(NoTrace, match='trace="off"'):
            trace.row(ROW, "plain")
        with pytest.raises(NoTrace, match="it is failed, and none of its steps had started"):
            trace.steps("broken")
        with pytest.raises(NotFound, match="Did you mean 'gl_close'"):
            trace.row(ROW, "gl_clse")
        assert len(trace.row(ROW).history()) == 3  # nobody needs to name the asset that has one
        assert [t.missing is None for t in trace.overview()] == [True, False, False]


@pytest.mark.parametrize(
    ("values", "said"),
    [({"jurnal": "1"}, "there are journal_id, line"), ({}, "at least one")],
)
def test_a_key_must_be_of_columns(closed: Trace, values: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        closed.find(values)


def test_a_row_id_is_a_uuid(closed: Trace) -> None:
    with pytest.raises(UsageError, match="not a row id"):
        closed.row("JE-002")
    with pytest.raises(UsageError, match="created, updated, deleted"):
        closed.changes("gl_close", 10, "baseline")


# ---- several targets -------------------------------------------------------------------------


def test_a_row_is_found_in_whichever_target_it_is(tmp_path: Path) -> None:
    run = RunFiles(tmp_path / "a [b] *")  # names that would be patterns
    general_ledger.write(run)
    days = [run.target("by_day", {"id": pa.int64()}, partition=f"d:2026-01-0{n}") for n in (1, 2)]
    for number, day in enumerate(days, 1):
        day.step(10, "delete").begin()
        ids = {row_id(f"{number}-{i}"): {"id": i} for i in range(number)}
        day.complete(10, deleted=list(ids), baseline=ids)
    with Trace(run.ended().open()) as trace:
        assert str(trace.row(row_id("2-1")).target) == "by_day[d:2026-01-02]"
        assert str(trace.row(ROW).target) == "gl_close"
        assert len(trace.changes("by_day", 10)) == 3
        assert len(trace.changes("by_day", 10, partition="2026-01-02")) == 2
        assert len(trace.row(row_id("2-1"), "by_day", "2026-01-01").history()) == 0
        assert len(trace.find({"id": "0"})) == 2
        with pytest.raises(UsageError, match="2 traces"):
            trace.steps("by_day")
        assert trace.steps("by_day", "d:2026-01-01")[0].deleted == 1


def test_an_id_that_two_assets_use_needs_the_asset(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    general_ledger.write(run)
    general_ledger.write(run, asset="copy", until=10)
    with Trace(run.ended().open()) as trace:
        with pytest.raises(UsageError, match="is in copy, gl_close"):
            trace.row(ROW).history()
        assert len(trace.row(ROW, "copy").history()) == 1


# ---- files that cannot be trusted ------------------------------------------------------------


CHANGE = {ROW: {"amount_local": (Decimal("-8500.00"), Decimal("1.00"))}}


def created_twice(files: TargetFiles) -> None:
    files.complete(50, created={row_id("USD", 4): {"currency": "USD"}})


def loaded_twice(files: TargetFiles) -> None:
    files.rewrite(20, **general_ledger.CHANGES[20], baseline={ROW: LINES["JE-002/2"]})


def loaded_and_created(files: TargetFiles) -> None:
    files.complete(40, created={ROW: LINES["JE-002/2"]})


def never_created(files: TargetFiles) -> None:
    files.rewrite(10, updated=general_ledger.CHANGES[10]["updated"])


def changed_when_deleted(files: TargetFiles) -> None:
    files.complete(60, updated={ROW: {"description": (None, "late")}})


def changed_twice_in_a_step(files: TargetFiles) -> None:
    files.complete(20, updated=CHANGE)


def loaded_too_late(files: TargetFiles) -> None:
    never_created(files)
    ended = general_ledger.CHANGES[30]
    baseline = {**ended["baseline"], ROW: LINES["JE-002/2"]}
    files.rewrite(30, deleted=ended["deleted"], baseline=baseline)


def a_change_of_another_column(files: TargetFiles) -> None:
    files.rewrite(20, updated={ROW: {"line": (1, 2)}})


@pytest.mark.parametrize(
    ("forge", "row", "said"),
    [
        (created_twice, row_id("USD", 4), "created 2 times, in steps 40, 50"),
        (loaded_twice, ROW, "created 2 times, in steps 10, 20"),
        (loaded_and_created, ROW, "created 2 times, in steps 10, 40"),
        (never_created, ROW, "step 10 changed it, but its values before are not recorded"),
        (changed_when_deleted, ROW, "step 30 deleted it and step 60 has a record"),
        (changed_twice_in_a_step, ROW, "step 20 has two records of it"),
        (loaded_too_late, ROW, "is recorded as the first that changed it, but is not"),
        (a_change_of_another_column, ROW, "columns line of step 20"),
    ],
)
def test_records_that_contradict_each_other_are_not_explained_away(
    tmp_path: Path, forge: Callable[[TargetFiles], None], row: str, said: str
) -> None:
    run = RunFiles(tmp_path)
    forge(general_ledger.write(run))
    with Trace(run.ended().open()) as trace:
        for ask in (trace.row(row).history, lambda: trace.row(row).at_step(70)):
            with pytest.raises(TraceCorrupt, match=said) as refused:
                ask()
            assert str(tmp_path) not in str(refused.value)
        assert len(trace.row(row_id("4100", 5)).history()) == 2  # the others are as they were


def test_two_records_of_a_row_in_a_step_are_seen_in_its_changes(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    changed_twice_in_a_step(general_ledger.write(run))
    with Trace(run.ended().open()) as trace, pytest.raises(TraceCorrupt, match="two records"):
        trace.changes("gl_close", 20)


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


UPDATED = "operation_seq=20/rows-00-00000.parquet"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (UPDATED, truncated),
        (UPDATED, emptied),
        ("steps.json", truncated),
        ("steps.json", emptied),
        ("steps.json", Path.unlink),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    run = RunFiles(tmp_path)
    files = general_ledger.write(run)
    damage(files.folder / name)
    with Trace(run.ended().open()) as trace:
        asked = (
            lambda: trace.row(ROW).history(),
            trace.overview,
            lambda: list(trace.records()),
        )
        for ask in asked:
            with pytest.raises(TraceCorrupt) as refused:
                ask()
            assert refused.value.where == f"gl_close/trace/{name}"
            assert str(tmp_path) not in str(refused.value)


def test_a_file_that_is_gone_is_missed(tmp_path: Path) -> None:
    """By a gap in the steps, a gap in their numbers, or the ledger that lists it."""
    for number, (lost, said) in enumerate(
        (
            ("operation_seq=30", "step 40 is complete and step 30 before it is not"),
            (
                "operation_seq=20/rows-00-00000.parquet",
                "rows-00-00000.parquet: the file is missing",
            ),
            (
                "operation_seq=60/rows-00-00000.parquet",
                "rows-00-00000.parquet: the file is missing",
            ),
        )
    ):
        run = RunFiles(tmp_path / str(number))
        files = general_ledger.write(run)
        more = {row_id("other"): {"amount_local": (None, Decimal(1))}}
        files.complete(20, updated=more)
        listed = {f"trace/{p.relative_to(files.folder)}": "" for p in files.folder.rglob("*.*")}
        if number == 2:
            (files.place / "ledger.json").write_text(json.dumps({"files": listed}))
        (files.folder / lost).rename(tmp_path / f"lost-{number}")
        with (
            Trace(run.ended().open()) as trace,
            pytest.raises(TraceCorrupt, match=said),
        ):
            trace.row(ROW)
