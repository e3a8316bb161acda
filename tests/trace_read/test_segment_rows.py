"""Segments of several steps: one row for each row that they touched. Written here by pyarrow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallyman.errors import TraceCorrupt
from tallyman.query.trace.asset import Trace
from tests.trace_read.layout import ROW, RunFiles, TargetFiles

BEGINS = "019c168120007000"
PLAIN: dict[str, Any] = {
    "row": [ROW],
    "row_id_begins": BEGINS,
    "words": 2,
    "columns": [
        {"last": ["id"], "changes": []},
        {
            "last": ["v"],
            "changes": [
                {"step": 10, "column": "v", "mark": 1, "old": [ROW, "v_10"]},
                {"step": 30, "column": "v", "mark": 61, "old": [ROW, "v_30"]},
            ],
        },
        {"last": ["w"], "changes": [{"step": 30, "column": "w", "mark": 62, "old": None}]},
    ],
    "ended": [{"step": 20, "mark": 3}],
    "loaded": [{"name": "id", "column": 0}, {"name": "v", "column": 1}],
    "created": None,
}
KEPT = [
    # a: changed twice; b: changed, then deleted; c: first touched by the last step; d: long ago
    {"id": "a", "v": 3, "w": 9, ROW: {"id": 7, "marks_0": 2, "marks_1": 6, "v_10": 1, "v_30": 2}},
    {"id": "b", "v": 5, "w": None, ROW: {"id": 5, "marks_0": 10, "marks_1": 0, "v_10": None}},
    {"id": "c", "v": 6, "w": None, ROW: {"id": 6, "marks_0": 0, "marks_1": 2, "v_30": 4}},
]
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("v", pa.int32()),
        ("w", pa.int32()),
        (
            ROW,
            pa.struct(
                [(n, pa.int64()) for n in ("id", "marks_0", "marks_1")]
                + [("v_10", pa.int32()), ("v_30", pa.int32())]
            ),
        ),
    ]
)


def row_id(low: int) -> UUID:
    return UUID(int=int(BEGINS, 16) << 64 | 2 << 62 | low)


A, B, C = row_id(7), row_id(5), row_id(6)


def written(home: Path, *, until: int = 30, layout: Mapping[str, Any] = PLAIN) -> RunFiles:
    run = RunFiles(home)
    number = pa.int32()
    files: TargetFiles = run.target("gl", {"id": pa.string(), "v": number})
    files.step(10, "update", assigned={"v": number}).step(20, "delete")
    files.step(30, "update", assigned={"v": number, "w": number}).begin()
    for seq in (10, 20, 30):
        if seq <= until:
            (files.folder / f"operation_seq={seq}").mkdir()
    place = files.folder / "operation_seq=10"
    (place / "rows-00.json").write_text(json.dumps(layout))
    for number_, rows in enumerate((KEPT[:2], KEPT[2:])):
        table = pa.Table.from_pylist(rows, SCHEMA)
        pq.write_table(table, place / f"rows-00-{number_:05d}.parquet")
    return run.ended()


def told(trace: Trace, row: UUID) -> list[tuple[int, str, Any]]:
    history = trace.row(row).history(include_baseline=True)
    return [(e.operation_seq, e.change_type.value, e.diff) for e in history]


def changed(**columns: tuple[Any, Any]) -> dict[str, dict[str, Any]]:
    return {name: {"old": old, "new": new} for name, (old, new) in columns.items()}


def test_baselines_and_changes_are_read_from_one_row(tmp_path: Path) -> None:
    with Trace(written(tmp_path).open()) as trace:
        assert told(trace, A) == [
            (0, "created", changed(id=(None, "a"), v=(None, 1))),
            (10, "updated", changed(v=(1, 2))),
            (30, "updated", changed(v=(2, 3), w=(None, 9))),
        ]
        assert told(trace, B)[1:] == [
            (10, "updated", changed(v=(None, 5))),
            (20, "deleted", changed(_deleted=(False, True))),
        ]
        state = trace.row(A).at_step(20).state
        assert state is not None
        assert (state["id"], state["v"], "w" in state) == ("a", 2, False)
        assert [(s.updated, s.deleted, s.baselines) for s in trace.steps("gl")] == [
            (2, 0, 2),
            (0, 1, 0),
            (2, 0, 1),
        ]
        assert trace.find({"v": "4"}) == [C]
        assert trace.find({"v": "null"}) == [B]


def test_pages_of_changes_are_in_the_order_of_row_ids(tmp_path: Path) -> None:
    with Trace(written(tmp_path).open()) as trace:
        first = trace.changes("gl", 10, limit=1)
        assert ([r.row_id for r in first.records], first.next_after) == ([B], B)
        second = trace.changes("gl", 10, limit=1, after=B)
        assert ([r.row_id for r in second.records], second.next_after) == ([A], None)
        earlier, later = UUID(int=B.int - (1 << 64)), UUID(int=A.int + (1 << 64))
        assert len(trace.changes("gl", 10, after=earlier).records) == 2
        assert len(trace.changes("gl", 10, after=later).records) == 0
        assert trace.row(later).history().diagnostic is not None


def test_marks_of_a_step_that_is_not_complete_are_ignored(tmp_path: Path) -> None:
    with Trace(written(tmp_path, until=20).open()) as trace:
        assert [step for step, _, _ in told(trace, A)] == [0, 10]
        assert told(trace, C) == []
        assert [(s.updated, s.complete) for s in trace.steps("gl")][2] == (0, False)
        assert {record.row_id for record in trace.records()} == {A, B}


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


@pytest.mark.parametrize(
    ("name", "damage", "named"),
    [
        ("rows-00-00000.parquet", Path.unlink, "rows-00-00000.parquet"),
        ("rows-00-00001.parquet", truncated, "rows-00-00001.parquet"),
        ("rows-00.json", Path.unlink, "rows-00.json"),
        ("rows-00.json", truncated, "rows-00.json"),
        ("rows-00-00001.parquet", lambda p: p.rename(p.with_name("more.parquet")), "more.parquet"),
    ],
)
def test_a_damaged_file_is_named(
    tmp_path: Path, name: str, damage: Callable[[Path], object], named: str
) -> None:
    run = written(tmp_path)
    damage(run.folder / "gl" / "trace" / "operation_seq=10" / name)
    with Trace(run.open()) as trace, pytest.raises(TraceCorrupt) as refused:
        list(trace.records())
    assert refused.value.where == f"gl/trace/operation_seq=10/{named}"


@pytest.mark.parametrize(
    "wrong",
    [
        {"words": 1},
        {"row_id_begins": "not a number"},
        {"loaded": [{"name": "id", "column": 9}]},
        {"loaded": [{"name": "id", "value": None}]},
        {"columns": [{"last": ["id"]}]},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_layout_that_is_none_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    run = written(tmp_path, layout={**PLAIN, **wrong})
    with Trace(run.open()) as trace, pytest.raises(TraceCorrupt, match=r"rows-00\.json"):
        trace.overview()
