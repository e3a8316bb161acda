"""The general-ledger close: what its seven steps recorded, as `spec/trace.md` tells it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.trace.general_ledger import BASELINES, BUDGETED, RECORDS, SUMMARIES
from tests.trace_read.layout import RunFiles, TargetFiles, row_id

MONEY = pa.decimal128(18, 2)
LOADED = {
    "journal_id": pa.string(),
    "line": pa.int32(),
    "account": pa.string(),
    "cost_center": pa.string(),
    "currency": pa.string(),
    "amount_local": MONEY,
    "amount_reporting": MONEY,
    "source_system": pa.string(),
    "description": pa.string(),
}
SUMMED = {**LOADED, "total_reporting": pa.decimal128(28, 2), "line_count": pa.int64()}
SEQS = (10, 20, 30, 40, 50, 60, 70)


def write(run: RunFiles, *, until: int = 70, asset: str = "gl_close") -> TargetFiles:
    """The steps up to `until` are complete, as in a run that failed behind it."""
    files = run.target(asset, LOADED)
    fx = {"amount_reporting": MONEY}
    files.step(10, "update", assigned=fx, text="amount_reporting = amount_local * fx.rate")
    files.step(20, "update", assigned={"amount_local": MONEY}, text="amount_local * 1.05")
    files.step(30, "delete", text="rows where source_system = 'EXPENSE' AND amount_local < 0")
    files.step(40, "aggregate", columns=SUMMED).step(50, "append")
    files.step(60, "update", assigned={"description": pa.string()}).step(70, "output").begin()
    for seq in SEQS:
        if seq <= until:
            files.complete(seq, **CHANGES[seq])
    return files


def _id(name: str) -> str:
    """The steps that make rows are the fourth and the fifth."""
    return row_id(name, 4 if name in SUMMARIES else 5 if name in BUDGETED else 0)


def _changes(seq: int) -> dict[str, Any]:
    rows = {_id(name): record for name, record in RECORDS[seq].items()}
    found = {
        "updated": {
            row: {name: (before[name], value) for name, value in after.items()}
            for row, (kind, before, after) in rows.items()
            if kind == "updated"
        },
        "deleted": [row for row, (kind, _, _) in rows.items() if kind == "deleted"],
        "created": {row: after for row, (kind, _, after) in rows.items() if kind == "created"},
        "baseline": {_id(name): line for name, (at, line) in BASELINES.items() if at == seq},
    }
    return {kind: each for kind, each in found.items() if each}


CHANGES = {seq: _changes(seq) for seq in SEQS}
