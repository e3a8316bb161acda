"""A run: one execution of a selection of assets, and what it reports."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from tallyman.domain.fate import Fate
from tallyman.errors import UsageError

RUN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Status(StrEnum):
    SUCCESS = "success"
    FAILED = "failed"
    HALTED = "halted"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class RunIdentity:
    run_id: str
    openlineage_run_id: str
    started_at: datetime

    @classmethod
    def of(cls, run_id: str | None, *, now: datetime) -> RunIdentity:
        fresh = uuid.uuid4()
        if run_id is None:
            return cls(str(fresh), str(fresh), now)
        if not RUN_ID.fullmatch(run_id) or set(run_id) == {"."}:
            raise UsageError(
                f"run id {run_id!r}: use letters, digits, '.', '_' and '-', at most 64 characters"
            )
        return cls(run_id, str(fresh), now)

    @property
    def timestamp(self) -> str:
        return self.started_at.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def folder_name(self) -> str:
        """`MMDD_HHmmss_<run>`; a generated id is shortened to its first eight digits."""
        short = self.run_id[:8] if self.run_id == self.openlineage_run_id else self.run_id
        return f"{self.started_at:%m%d_%H%M%S}_{short}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetResult:
    name: str
    status: Status
    records_in: int = 0
    fates: Mapping[Fate, int] = field(default_factory=lambda: dict.fromkeys(Fate, 0))
    unaccounted: int = 0
    rows_out: int = 0
    rejections: int = 0
    duration_ms: int = 0
    error: Mapping[str, object] | None = None

    def to_json(self) -> dict[str, object]:
        found: dict[str, object] = {
            "name": self.name,
            "status": self.status.value,
            "records_in": self.records_in,
            "fates": {fate.value: count for fate, count in self.fates.items()},
            "unaccounted": self.unaccounted,
            "rows_out": self.rows_out,
            "rejections": self.rejections,
            "duration_ms": self.duration_ms,
        }
        return found | ({"error": dict(self.error)} if self.error else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    run_id: str
    status: Status
    folder: str
    assets: tuple[AssetResult, ...]

    @property
    def exit_code(self) -> int:
        return {Status.SUCCESS: 0, Status.HALTED: 3}.get(self.status, 1)

    def to_json(self) -> dict[str, object]:
        return {
            "run_id": self.run_id,
            "status": self.status.value,
            "folder": self.folder,
            "assets": [asset.to_json() for asset in self.assets],
        }
