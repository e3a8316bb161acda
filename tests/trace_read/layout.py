"""Run folders with traces, written by pyarrow as the engine lays them out: also such as no engine
writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tallyman.engine.files.past_run import Run

RUN_UUID = "0b0e7d6e-6d3c-4c58-9d5b-0c7a4f6c1a11"
STARTED_AT = "2026-02-01T00:00:00Z"

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
            "format": 1,
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
        """Everything a step did: `updated` is {row id: {column: (before, after)}}."""
        (self.folder / f"operation_seq={seq}").mkdir()
        if updated:
            self.write_updated(seq, updated)
        if deleted:
            self.write(seq, "deleted", {"row_id": sorted(deleted)})
        for kind, states in (("created", created), ("baseline", baseline)):
            if states:
                self.write_states(seq, kind, states)
        return self

    def write_updated(
        self, seq: int, changes: Mapping[str, Mapping[str, tuple[Any, Any]]], number: int = 0
    ) -> None:
        before, after = self.types[seq]
        ids, names = sorted(changes), list(before)
        sides = [
            pa.array(
                [
                    {name: changes[row].get(name, (None, None))[side] for name in names}
                    for row in ids
                ],
                pa.struct([(name, (before, after)[side][name]) for name in names]),
            )
            for side in (0, 1)
        ]
        masks = ["".join("1" if n in changes[row] else "0" for n in names) for row in ids]
        columns = {"row_id": ids, "changed": masks, "before": sides[0], "after": sides[1]}
        self.write(seq, "updated", columns, number)

    def write_states(
        self, seq: int, kind: str, states: Mapping[str, Mapping[str, Any]], number: int = 0
    ) -> None:
        of = self.loaded if kind == "baseline" else self.types[seq][1]
        ids = sorted(states)
        rows = [{name: states[row].get(name) for name in of} for row in ids]
        after = pa.array(rows, pa.struct(list(of.items())))
        self.write(seq, kind, {"row_id": ids, "after": after}, number)

    def write(self, seq: int, kind: str, columns: Mapping[str, Any], number: int = 0) -> None:
        place = self.file(seq, kind, number)
        filters: dict[str, Any] = {"row_id": {"ndv": 1000, "fpp": 0.01}}
        pq.write_table(
            pa.table(dict(columns)), place, compression="zstd", bloom_filter_options=filters
        )

    def file(self, seq: int, kind: str, number: int = 0) -> Path:
        return self.folder / f"operation_seq={seq}" / f"{kind}-{number:05d}.parquet"


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
        manifest = {"run_id": self.run_id, "openlineage_run_id": RUN_UUID, "targets": listed}
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
