"""What a target's trace holds, read file by file as a stranger would, and the rule to replay it.

Nothing of the reader under test is used: pyarrow for Parquet, json for the rest.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

State = dict[str, Any]


@dataclass(frozen=True)
class Record:
    seq: int
    kind: str
    row_id: str
    before: State | None
    after: State | None

    @property
    def diff(self) -> dict[str, tuple[Any, Any]]:
        before, after = self.before or {}, self.after or {}
        return {name: (exact(before[name]), exact(after[name])) for name in after}


def exact(value: Any) -> Any:
    """Equal only if type and value are; NaN is NaN, and -0.0 is 0.0 as SQL has it."""
    match value:
        case float():
            return "float", "NaN" if math.isnan(value) else repr(value + 0.0)
        case Decimal():
            return "decimal", value.as_tuple()
        case datetime():
            return "timestamp", value.astimezone(UTC).isoformat()
        case date():
            return "date", value.isoformat()
        case dict():
            return tuple((name, exact(part)) for name, part in value.items())
        case list():
            return "list", tuple(map(exact, value))
    return value if value is None else (type(value).__name__, value)


def exact_row(state: Mapping[str, Any], columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(exact(state[name]) for name in columns)


@dataclass(frozen=True)
class Recorded:
    """The folder `trace/` of one target."""

    folder: Path

    @cached_property
    def head(self) -> dict[str, Any]:
        return json.loads((self.folder / "steps.json").read_text())

    @property
    def steps(self) -> list[dict[str, Any]]:
        return self.head["steps"]

    @cached_property
    def complete(self) -> list[int]:
        found = [p for p in self.folder.iterdir() if p.name != "steps.json"]
        return sorted(int(p.name.removeprefix("operation_seq=")) for p in found)

    def tables(self, seq: int, kind: str) -> list[pa.Table]:
        place = self.folder / f"operation_seq={seq}"
        return [pq.ParquetFile(p).read() for p in sorted(place.glob(f"{kind}-*.parquet"))]

    def _rows(self, seq: int, kind: str) -> Iterator[dict[str, Any]]:
        for table in self.tables(seq, kind):
            yield from table.to_pylist()

    @cached_property
    def records(self) -> list[Record]:
        """Of all steps, without the baselines."""
        return [record for seq in self.complete for record in self._of(seq)]

    def _of(self, seq: int) -> Iterator[Record]:
        [assigned] = [step["assigned"] for step in self.steps if step["seq"] == seq]
        for row in self._rows(seq, "updated"):
            assert len(row["changed"]) == len(assigned) == len(row["after"]), row
            assert list(row["before"]) == list(row["after"]) == assigned, row
            shown = [n for n, mark in zip(assigned, row["changed"], strict=True) if mark == "1"]
            hidden = [n for n in assigned if n not in shown]
            assert not any(row[side][n] is not None for n in hidden for side in ("before", "after"))
            sides = ({n: row[side][n] for n in shown} for side in ("before", "after"))
            yield Record(seq, "updated", row["row_id"], *sides)
        for row in self._rows(seq, "deleted"):
            yield Record(seq, "deleted", row["row_id"], {"_deleted": False}, None)
        for row in self._rows(seq, "created"):
            yield Record(seq, "created", row["row_id"], None, row["after"])

    @cached_property
    def baselines(self) -> dict[str, tuple[int, State]]:
        """By row id: the step it was published with, and the row as it was loaded."""
        found = [(s, row) for s in self.complete for row in self._rows(s, "baseline")]
        assert len({row["row_id"] for _, row in found}) == len(found), "a baseline twice"
        return {row["row_id"]: (seq, row["after"]) for seq, row in found}

    def replayed(self, until: int | None = None) -> dict[str, State]:
        """Every recorded row as it was behind a step, rebuilt by the rule of the layout."""
        states = {row: {**after, "_deleted": False} for row, (_, after) in self.baselines.items()}
        by_step: dict[int, list[Record]] = {}
        for record in self.records:
            by_step.setdefault(record.seq, []).append(record)
        for step in self.steps:
            if until is not None and step["seq"] > until:
                break
            states = {row: moved(state, step) for row, state in states.items()}
            for record in by_step.get(step["seq"], []):
                match record.kind:
                    case "created":
                        states[record.row_id] = {**(record.after or {}), "_deleted": False}
                    case "updated":
                        states[record.row_id] |= record.after or {}
                    case _:
                        states[record.row_id]["_deleted"] = True
        return states


def moved(state: State, step: Mapping[str, Any]) -> State:
    """The columns behind a step, before what it changed in the row."""
    named = {step["renamed"].get(name, name): value for name, value in state.items()}
    return {name: named.get(name) for name in (*step["columns"], "_deleted")}


def row_id(head: Mapping[str, Any], started_ms: int, born: int, key: str) -> str:
    """As `docs/decisions` has it: time, ordinal of the step, and a hash of what the row is."""
    seqs = [0, *(step["seq"] for step in head["steps"])]
    scope = (head["openlineage_run_id"], head["asset"], head["partition"] or "", str(born), key)
    found = hashlib.sha256("\x1f".join(scope).encode()).hexdigest()
    moment, variant = f"{started_ms:012x}", "89ab"[int(found[0], 16) // 4]
    ordinal = f"7{seqs.index(born):03x}"
    return f"{moment[:8]}-{moment[8:]}-{ordinal}-{variant}{found[1:4]}-{found[4:16]}"
