"""Run folders with traces, written by pyarrow as the engine lays them out: also such as no engine
writes."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from tallyman.engine.files.past_run import Run

RUN_UUID = "0b0e7d6e-6d3c-4c58-9d5b-0c7a4f6c1a11"
STARTED_AT = "2026-02-01T00:00:00Z"
ROW = "_tm_trace"

Rows = Sequence[tuple[Any, ...]]
Columns = Mapping[str, pa.DataType]


def row_id(key: str, ordinal: int = 0) -> str:
    """A UUID laid out as version 7: the run's time, the ordinal of the step, a hash of the key."""
    rest = hashlib.sha256(f"{ordinal}|{key}".encode()).hexdigest()
    return f"019c1681-2000-7{ordinal:03x}-8{rest[:3]}-{rest[3:15]}"


@dataclass
class TargetFiles:
    """The trace of one target; `columns` are those of the rows at the step written last."""

    place: Path
    asset: str
    loaded: Columns
    partition: str | None = None
    redacted: Sequence[str] = ()
    steps: list[dict[str, Any]] = field(default_factory=list)
    types: dict[int, tuple[dict[str, pa.DataType], dict[str, pa.DataType]]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self.columns = dict(self.loaded)

    @property
    def folder(self) -> Path:
        return self.place / "trace"

    def step(
        self,
        seq: int,
        kind: str,
        *,
        assigned: Columns | None = None,
        renamed: Mapping[str, str] | None = None,
        columns: Columns | None = None,
        text: str = "",
    ) -> TargetFiles:
        """Declare a step; `columns` are all there are behind it, where it adds or drops any."""
        new = dict(assigned or {})
        before = {name: self.columns.get(name, of) for name, of in new.items()}
        self.columns = dict(columns) if columns is not None else {**self.columns, **new}
        self.types[seq] = (before, dict(self.columns))
        self.steps.append(
            {
                "seq": seq,
                "id": f"{seq}_{kind}",
                "kind": kind,
                "text": text,
                "assigned": list(new),
                "renamed": dict(renamed or {}),
                "columns": list(self.columns),
            }
        )
        return self

    def begin(self) -> TargetFiles:
        self.folder.mkdir(parents=True)
        content = {
            "format": 2,
            "run_id": "gl",
            "openlineage_run_id": RUN_UUID,
            "asset": self.asset,
            "partition": self.partition,
            "timestamp": STARTED_AT,
            "loaded": [{"name": name, "type": str(of)} for name, of in self.loaded.items()],
            "steps": self.steps,
            "redacted": list(self.redacted),
        }
        (self.folder / "steps.json").write_text(json.dumps(content))
        return self

    def complete(
        self,
        seq: int,
        *,
        updated: Mapping[str, Mapping[str, tuple[Any, Any]]] | None = None,
        deleted: Sequence[str] = (),
        created: Mapping[str, Mapping[str, Any]] | None = None,
        baseline: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> TargetFiles:
        """Everything a step did, as a segment of its own: `updated` is {row id: {column: (before,
        after)}}. Called twice for a step, it adds files."""
        (self.folder / f"operation_seq={seq}").mkdir(exist_ok=True)
        changed = {key: {} for key in deleted} | dict(updated or {})
        for group in _by_beginning(changed):
            self._write_changed(seq, group, deleted, baseline or {})
        for group in _by_beginning(created or {}):
            self._write_created(seq, group)
        return self

    def _write_changed(
        self,
        seq: int,
        rows: Mapping[str, Mapping[str, tuple[Any, Any]]],
        deleted: Sequence[str],
        baseline: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """Mark 0 says that another segment touched the row, the next ones which columns changed,
        the last one that the step deleted it."""
        before, after = self.types[seq]
        names = sorted({name for row in rows.values() for name in row} | set(before))
        own: dict[str, Any] = {}
        columns: dict[str, Any] = {}
        marks = [int(row not in baseline) for row in rows]
        for place, name in enumerate(names):
            given = [row.get(name, (None, None)) for row in rows.values()]
            own[f"old_{name}"] = pa.array([old for old, _ in given], before.get(name))
            columns[name] = pa.array([new for _, new in given], after.get(name))
            for at, row in enumerate(rows.values()):
                marks[at] |= (name in row) << place + 1
        end = len(names) + 1
        own["marks_0"] = [
            mark | (row in deleted) << end for mark, row in zip(marks, rows, strict=True)
        ]
        started = [baseline.get(row, {}) for row in rows]
        for name, of in self.loaded.items():
            own[f"loaded_{name}"] = pa.array([row.get(name) for row in started], of)
        layout = {
            "columns": [
                {
                    "last": [name],
                    "changes": [
                        {
                            "step": seq,
                            "column": name,
                            "mark": place + 1,
                            "old": [ROW, f"old_{name}"],
                        }
                    ],
                }
                for place, name in enumerate(names)
            ],
            "ended": [{"step": seq, "mark": end}] if deleted else [],
            "loaded": [{"name": n, "value": [ROW, f"loaded_{n}"]} for n in self.loaded],
            "created": None,
        }
        self._write(seq, rows, layout, columns, own)

    def _write_created(self, seq: int, rows: Mapping[str, Mapping[str, Any]]) -> None:
        of = self.types[seq][1]
        columns = {
            name: pa.array([row.get(name) for row in rows.values()], of[name]) for name in of
        }
        layout = {
            "columns": [{"last": [name], "changes": []} for name in of],
            "ended": [],
            "loaded": None,
            "created": {
                "step": seq,
                "values": [{"name": name, "column": n} for n, name in enumerate(of)],
            },
        }
        self._write(seq, rows, layout, columns, {"marks_0": [0] * len(rows)})

    def _write(
        self,
        seq: int,
        rows: Iterable[str],
        layout: Mapping[str, Any],
        columns: Mapping[str, Any],
        own: Mapping[str, Any],
    ) -> None:
        """Write a group of rows whose ids begin alike next to its layout."""
        ids = [UUID(row).int for row in rows]
        layout = {"row": [ROW], "row_id_begins": f"{ids[0] >> 64:x}", "words": 1, **layout}
        folder, text = self.folder / f"operation_seq={seq}", json.dumps(layout)
        same = (place for place in folder.glob("rows-*.json") if place.read_text() == text)
        place = next(same, folder / f"rows-{len(list(folder.glob('rows-*.json'))):02d}.json")
        place.write_text(text)
        number = len(list(folder.glob(f"{place.stem}-*.parquet")))
        held = {"id": pa.array([low & (1 << 62) - 1 for low in ids]), **own}
        struct = pa.StructArray.from_arrays(
            [pa.array(values) if isinstance(values, list) else values for values in held.values()],
            names=list(held),
        )
        table = pa.table({**columns, ROW: struct})
        pq.write_table(table, folder / f"{place.stem}-{number:05d}.parquet", compression="zstd")

    def rewrite(self, seq: int, **changes: Any) -> None:
        shutil.rmtree(self.folder / f"operation_seq={seq}")
        self.complete(seq, **changes)

    def file(self, seq: int, group: int = 0, number: int = 0) -> Path:
        return self.folder / f"operation_seq={seq}" / f"rows-{group:02d}-{number:05d}.parquet"


def _by_beginning(rows: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Group rows by the first 64 bits of their ids, each in the order of ids."""
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(rows):
        found.setdefault(row[:18], {})[row] = rows[row]
    return list(found.values())


@dataclass
class RunFiles:
    """A run folder below a project."""

    home: Path
    run_id: str = "gl"
    targets: list[dict[str, Any]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.home / "runs" / f"0201_000000_{self.run_id}"

    def target(self, asset: str, loaded: Columns, **more: Any) -> TargetFiles:
        place = self.untraced(asset, more.get("partition"))
        return TargetFiles(place, asset, loaded, **more)

    def untraced(self, asset: str, partition: str | None = None, status: str = "success") -> Path:
        folder = asset if partition is None else f"{asset}/day={partition.removeprefix('d:')}"
        self.targets.append(
            {"asset": asset, "partition": partition, "folder": folder, "status": status}
        )
        place = self.folder / folder
        place.mkdir(parents=True)
        return place

    def begun(self) -> RunFiles:
        listed = [{k: t[k] for k in ("asset", "partition", "folder")} for t in self.targets]
        manifest = {
            "manifest_version": "2.0",
            "run_id": self.run_id,
            "openlineage_run_id": RUN_UUID,
            "targets": listed,
            "cryptographic_binding": {
                "config_hash": "",
                "code_version": {"source_hash": ""},
                "input_hashes": {},
            },
            "processing_window": {},
            "execution_metadata": {},
            "output_locations": {"run_dir": f"runs/{self.folder.name}"},
            "pipeline_version": None,
            **dict.fromkeys(("project", "actor", "timestamp", "folder_name"), ""),
        }
        (self.folder / "manifest.json").write_text(json.dumps(manifest))
        return self

    def ended(self, status: str = "success") -> RunFiles:
        self.begun()
        assets = [
            {"name": t["asset"], "partition": t["partition"], "status": t["status"]}
            for t in self.targets
        ]
        report = {"run_id": self.run_id, "status": status, "assets": assets}
        (self.folder / "processing_report.json").write_text(json.dumps(report))
        return self

    def open(self) -> Run:
        return Run.open(self.folder)
