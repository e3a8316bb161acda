"""What a target's trace holds, read file by file as a stranger would, and the rule to replay it.

Nothing of the reader under test is used: pyarrow for Parquet, json for the rest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

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
class Segment:
    """Files that one layout describes: a row for each row that the steps of a segment touched."""

    layout: dict[str, Any]
    files: list[Path]

    @cached_property
    def stored(self) -> pa.Table:
        return pa.concat_tables(
            (pq.ParquetFile(file).read() for file in self.files), promote_options="permissive"
        )

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        return self.stored.to_pylist()

    def at(self, row: Any, path: Sequence[str]) -> Any:
        for name in path:
            row = row[name]
        return row

    def of(self, path: Sequence[str]) -> pa.DataType:
        """The type of what is at a path."""
        found = self.stored.schema.field(path[0]).type
        for name in path[1:]:
            found = found.field(name).type
        return found

    def marked(self, row: Any, mark: int) -> bool:
        word = self.at(row, [*self.layout["row"], f"marks_{mark // 60}"])
        return bool(word & (1 << (mark % 60)))

    def id_of(self, row: Any) -> str:
        low = self.at(row, [*self.layout["row"], "id"])
        assert 0 <= low < 1 << 62
        whole = f"{int(self.layout['row_id_begins'], 16) << 64 | 1 << 63 | low:032x}"
        return "-".join((whole[:8], whole[8:12], whole[12:16], whole[16:20], whole[20:]))

    def value(self, row: Any, column: Any, number: int) -> Any:
        """What a column held before its change of that number, or the next one of the row."""
        for change in column["changes"][number:]:
            if self.marked(row, change["mark"]):
                return None if change["old"] is None else self.at(row, change["old"])
        return self.at(row, column["last"])

    def changed(self, seq: int) -> dict[str, tuple[Any, int]]:
        """The columns that a step assigns: each with the number of this change."""
        return {
            change["column"]: (column, number)
            for column in self.layout["columns"]
            for number, change in enumerate(column["changes"])
            if change["step"] == seq
        }

    def steps_of(self, row: Any) -> list[int]:
        marks = [(e["step"], e["mark"]) for e in self.layout["ended"]]
        for column in self.layout["columns"]:
            marks += [(c["step"], c["mark"]) for c in column["changes"]]
        return sorted({step for step, mark in marks if self.marked(row, mark)})

    def table(self, step: Mapping[str, Any], kind: str) -> pa.Table | None:
        return {
            "updated": self._updated,
            "deleted": self._deleted,
            "created": self._created,
            "baseline": self._baseline,
        }[kind](step)

    def _updated(self, step: Mapping[str, Any]) -> pa.Table | None:
        changed = self.changed(step["seq"])
        if not changed:
            return None
        assert sorted(changed) == sorted(step["assigned"])
        names = step["assigned"]
        made: list[list[Any]] = [[], [], [], []]
        for row in self.rows:
            marks = {n: self.marked(row, c["changes"][i]["mark"]) for n, (c, i) in changed.items()}
            if not any(marks.values()):
                continue
            old = {n: self.value(row, c, i) if marks[n] else None for n, (c, i) in changed.items()}
            new = {
                n: self.value(row, c, i + 1) if marks[n] else None for n, (c, i) in changed.items()
            }
            mask = "".join("1" if marks[name] else "0" for name in names)
            for values, value in zip(made, (self.id_of(row), mask, old, new), strict=True):
                values.append(value)
        olds = {n: c["changes"][i]["old"] or c["last"] for n, (c, i) in changed.items()}
        sides = [
            pa.array(values, pa.struct([(name, self.of(paths[name])) for name in names]))
            for values, paths in (
                (made[2], olds),
                (made[3], {n: c["last"] for n, (c, _) in changed.items()}),
            )
        ]
        columns = {"row_id": made[0], "changed": made[1], "before": sides[0], "after": sides[1]}
        return pa.table(columns)

    def _deleted(self, step: Mapping[str, Any]) -> pa.Table | None:
        marks = [e["mark"] for e in self.layout["ended"] if e["step"] == step["seq"]]
        found = [self.id_of(row) for row in self.rows if any(self.marked(row, m) for m in marks)]
        return pa.table({"row_id": pa.array(found, pa.string())})

    def _created(self, step: Mapping[str, Any]) -> pa.Table | None:
        created = self.layout["created"]
        if created is None or created["step"] != step["seq"]:
            return None
        return self._states(self.rows, created["values"])

    def _baseline(self, step: Mapping[str, Any]) -> pa.Table | None:
        if self.layout["loaded"] is None:
            return None
        unseen = (row for row in self.rows if not self.marked(row, 0))
        mine = [row for row in unseen if self.steps_of(row)[0] == step["seq"]]
        return self._states(mine, self.layout["loaded"])

    def _states(self, rows: list[Any], values: list[dict[str, Any]]) -> pa.Table:
        columns = self.layout["columns"]
        after = [
            {
                v["name"]: self.at(row, v["value"])
                if "value" in v
                else self.value(row, columns[v["column"]], 0)
                for v in values
            }
            for row in rows
        ]
        kinds = [
            (v["name"], self.of(v["value"] if "value" in v else columns[v["column"]]["last"]))
            for v in values
        ]
        ids = pa.array([self.id_of(row) for row in rows], pa.string())
        return pa.table({"row_id": ids, "after": pa.array(after, pa.struct(kinds))})


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

    @cached_property
    def segments(self) -> list[Segment]:
        return [
            Segment(json.loads(layout.read_text()), sorted(layout.parent.glob(f"{layout.stem}-*")))
            for seq in self.complete
            for layout in sorted((self.folder / f"operation_seq={seq}").glob("*.json"))
        ]

    def tables(self, seq: int, kind: str) -> list[pa.Table]:
        """The records of a step, as tables with an id, the columns that changed, and both sides."""
        [step] = [step for step in self.steps if step["seq"] == seq]
        tables = [segment.table(step, kind) for segment in self.segments]
        return [table for table in tables if table is not None and table.num_rows]

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
    scope = (head["openlineage_run_id"], head["asset"], head["partition"] or "", str(born))
    seed = xxhash.xxh64_intdigest("\x1f".join(scope).encode(), seed=42)
    low = xxhash.xxh64_intdigest(key.encode(), seed=seed) & (1 << 62) - 1
    high = started_ms << 16 | 7 << 12 | seqs.index(born)
    return str(UUID(int=high << 64 | 2 << 62 | low))
