"""Text output of `tallyman trace`: values before and after, side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tallyman.cli.terminal.output import out, table
from tallyman.domain.history.trace import (
    Changes,
    ChangeType,
    FoundRow,
    RowHistory,
    TargetTrace,
    TraceRecord,
    Values,
    plain,
)

if TYPE_CHECKING:
    from tallyman.query.trace.row import TraceRow

COLUMNS = ("step", "what", "column", "before", "after")


def print_history(row: TraceRow, history: RowHistory) -> None:
    _heading(row)
    lines: list[dict[str, object]] = []
    for entry in history:
        lines += _lines(str(entry.operation_seq), entry.change_type, entry.diff)
    table(lines, COLUMNS)
    touched = {entry.operation_seq for entry in history}
    for step in row.described:
        if step.seq in touched:
            out.print(f"step {step.seq}, {step.kind}: {step.text}")


def print_state(row: TraceRow, state: Values, step: int | None) -> None:
    _heading(row, f"   after step {step}")
    table(
        [{"column": name, "value": text(held)} for name, held in state.items()], ("column", "value")
    )


def print_changes(page: Changes) -> None:
    lines: list[dict[str, object]] = []
    for record in page:
        lines += _lines(str(record.row_id), record.change_type, record.diff, "row")
    if lines:
        table(lines, ("row", *COLUMNS[1:]))
    if page.next_after:
        out.print(f"{len(page):,} rows; next page:  --after {page.next_after}")
    elif not page.diagnostic:
        out.print(f"{len(page):,} rows" if page.records else "no row was changed")


def print_matches(found: Sequence[FoundRow], most: int) -> None:
    many = f"more than {most}" if len(found) > most else f"{len(found)}"
    out.print(f"{many} rows started with these values; choose one by its id:")
    lines = [
        {
            "row": str(row.row_id),
            "asset": str(row.target),
            "came in": _came_in(row.record),
            "values": _few(row.record.after or {}),
        }
        for row in found[:most]
    ]
    table(lines, ("row", "asset", "came in", "values"))


def print_overview(targets: Sequence[TargetTrace]) -> None:
    for target in targets:
        if target.missing is not None:
            out.print(f"{target.target}   not traced: {target.missing}")
            continue
        records = sum(step.records for step in target.steps)
        loaded = sum(step.baselines for step in target.steps)
        hidden = f"   redacted: {', '.join(target.redacted)}" if target.redacted else ""
        out.print(f"{target.target}   {records:,} changes   {loaded:,} loaded rows touched{hidden}")
        lines = [
            step.to_json() | {"step": step.step.seq, "complete": "yes" if step.complete else "no"}
            for step in target.steps
        ]
        table(lines, ("step", "id", "created", "updated", "deleted", "complete", "text"))


def text(value: object) -> str:
    """Write a value as text: NULL becomes null, an empty string stays empty."""
    found = plain(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _heading(row: TraceRow, more: str = "") -> None:
    out.print(f"{row.target}   row {row.row_id}{more}")


def _lines(
    where: str, change: ChangeType, diff: Values, first: str = "step"
) -> list[dict[str, object]]:
    """Make one line per column; the first line also names the step and the change. Columns of a new
    row that are NULL are left out."""
    created = change is ChangeType.CREATED
    shown = {n: both for n, both in diff.items() if not created or both["new"] is not None}
    lines: list[dict[str, object]] = [
        {
            "column": name,
            "before": "" if created else text(both["old"]),
            "after": text(both["new"]),
        }
        for name, both in shown.items()
    ] or [{}]
    lines[0] |= {first: where, "what": change.value}
    return lines


def _came_in(record: TraceRecord) -> str:
    return f"by step {record.operation_seq}" if record.operation_seq else "loaded"


def _few(values: Values) -> str:
    return ", ".join(f"{name}={text(value)}" for name, value in values.items() if value is not None)
