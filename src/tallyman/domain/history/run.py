"""Runs: one execution of a selection of assets, and its result."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from tallyman.domain.account.column_metrics import MetricsByColumn
from tallyman.domain.account.fate import Fate
from tallyman.domain.account.reference_tally import ReferenceTally
from tallyman.domain.account.rule_warning import RuleWarning
from tallyman.domain.account.sub_tally import SubTally
from tallyman.domain.codec import of_plain, to_plain
from tallyman.domain.pipeline.target import Target
from tallyman.domain.version.commit import Commit
from tallyman.errors import UsageError

RUN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Status(StrEnum):
    """The state of a run and of each target. Only a run is INTERRUPTED, only a target SKIPPED."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    HALTED = "halted"
    WAITING = "waiting_approval"
    SKIPPED = "skipped"
    CANCELED = "canceled"
    INTERRUPTED = "interrupted"

    @property
    def good(self) -> bool:
        """True if there is a result: a new one, or an earlier one that stands."""
        return self in (Status.SUCCESS, Status.SKIPPED)


EXIT_CODES = {Status.SUCCESS: 0, Status.HALTED: 3, Status.CANCELED: 130}
"""The exit code of a run; 1 for all other states, including a run that waits for approval."""


def run_status(statuses: Collection[Status]) -> Status:
    """Derive the state of a run from its targets, once no process is executing it."""
    for worst in (Status.CANCELED, Status.FAILED, Status.HALTED, Status.WAITING):
        if worst in statuses:
            return worst
    # Targets are left that no process works on; a resume continues with them.
    return Status.SUCCESS if all(s.good for s in statuses) else Status.INTERRUPTED


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
        if not RUN_ID.fullmatch(run_id) or set(run_id) == {"."} or run_id == "latest":
            raise UsageError(
                f"run id {run_id!r}: use letters, digits, '.', '_' and '-', at most 64 characters; "
                "'latest' is the newest run, whatever its id"
            )
        return cls(run_id, str(fresh), now)

    @property
    def timestamp(self) -> str:
        return self.started_at.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def clock(self) -> datetime:
        """Return the one time that the run's rows may contain: `timestamp`, to the second."""
        return self.started_at.replace(microsecond=0)

    @property
    def folder_name(self) -> str:
        """Name the run folder: `MMDD_HHmmss_<run>`, with the first eight digits of a generated
        id.
        """
        short = self.run_id[:8] if self.run_id == self.openlineage_run_id else self.run_id
        return f"{self.started_at:%m%d_%H%M%S}_{short}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetResult:
    name: str
    status: Status
    partition: str | None = None
    attempt: int = 0
    records_in: int = 0
    fates: Mapping[Fate, int] = field(default_factory=lambda: dict.fromkeys(Fate, 0))
    unaccounted: int = 0
    sub_ledgers: tuple[SubTally, ...] = ()
    """The children and groups that the asset made of its records, with their fates."""
    rows_out: int = 0
    rejections: int = 0
    null_keys: Mapping[str, int] = field(default_factory=dict)
    """The number of rows without a value, for each such column of the key."""
    missing_columns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The number of records in files without a column, by input and column."""
    column_metrics: Mapping[str, MetricsByColumn] = field(default_factory=dict)
    """Metrics of the columns of text inputs, by input and column, if they were measured."""
    warnings: tuple[RuleWarning, ...] = ()
    references: tuple[ReferenceTally, ...] = ()
    input_warnings: tuple[str, ...] = ()
    """What was found about inputs that are empty or shrank, and did not stop the asset."""
    duration_ms: int = 0
    reused: str | None = None
    """If resumed: which segments of an earlier attempt were reused, and why no more."""
    unchanged_since: str | None = None
    """If skipped: the run that made the result which stands."""
    error: Mapping[str, object] | None = None

    @classmethod
    def of(
        cls,
        target: Target,
        status: Status,
        *,
        attempt: int = 0,
        error: Mapping[str, object] | None = None,
    ) -> AssetResult:
        """Build a result of which nothing was counted."""
        name, partition = target.asset, target.partition
        return cls(name=name, partition=partition, status=status, attempt=attempt, error=error)

    @property
    def target(self) -> Target:
        return Target(self.name, self.partition)

    def with_status(
        self, status: Status, *, error: Mapping[str, object] | None = None
    ) -> AssetResult:
        return replace(self, status=status, error=error or self.error)

    def to_json(self) -> dict[str, object]:
        found = to_plain(self) | {"sub_ledgers": [one.to_json() for one in self.sub_ledgers]}
        return {name: fact for name, fact in found.items() if fact or name not in SPARSE}

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> AssetResult:
        """Read a result from the facts that the registry keeps of it, among others."""
        return of_plain(cls, {name: found[name] for name in cls.__slots__ if name in found})


SPARSE = (
    "null_keys", "missing_columns", "column_metrics", "warnings", "references", "input_warnings",
    "reused", "unchanged_since", "error",
)  # fmt: skip
"""The facts that are shown only if there are any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    run_id: str
    status: Status
    folder: str
    assets: tuple[AssetResult, ...]
    commit: Commit | None = None
    """The commit of the run; None if nothing was new, or nothing could be published."""
    error: Mapping[str, object] | None = None
    notes: tuple[str, ...] = ()
    """Further remarks for people."""

    def with_notes(self, notes: Iterable[str]) -> RunResult:
        return replace(self, notes=(*self.notes, *notes))

    def with_commit(self, commit: Commit | None) -> RunResult:
        """Add the commit. If there is one, a target that failed says so of itself alone: a backfill
        publishes the partitions that succeeded."""
        if commit is None:
            return replace(self, commit=None)
        assets = [replace(made, error=_of_itself(made.error)) for made in self.assets]
        return replace(self, commit=commit, assets=tuple(assets))

    def by_partition(self) -> dict[str, int]:
        """Count the partitions that succeeded, failed, were skipped as unchanged, or did not
        run.
        """
        states: dict[str, set[Status]] = {}
        for made in self.assets:
            if made.partition is not None:
                states.setdefault(made.partition, set()).add(made.status)
        good = [found for found in states.values() if all(s.good for s in found)]
        skipped = sum(1 for found in good if found == {Status.SKIPPED})
        untouched = sum(1 for found in states.values() if found <= {Status.PENDING, Status.SKIPPED})
        not_run = untouched - skipped
        return {
            "succeeded": len(good) - skipped,
            "failed": len(states) - len(good) - not_run,
            "skipped": skipped,
            "not_run": not_run,
        }

    @property
    def exit_code(self) -> int:
        return EXIT_CODES.get(self.status, 1)

    def to_json(self) -> dict[str, object]:
        found: dict[str, object] = {
            "run_id": self.run_id,
            "status": self.status.value,
            "folder": self.folder,
            "assets": [asset.to_json() for asset in self.assets],
            "commit": str(self.commit.id) if self.commit else None,
            "published": self.published(),
            **({"notes": list(self.notes)} if self.notes else {}),
        }
        return found | ({"error": dict(self.error)} if self.error else {})

    def published(self) -> dict[str, int]:
        """Map each published dataset to its new version."""
        return {move.dataset: move.ordinal for move in self.commit.moves} if self.commit else {}


def _of_itself(error: Mapping[str, object] | None) -> Mapping[str, object] | None:
    if error is None or "hint" not in error:
        return error
    hint = str(error["hint"]).replace("Nothing was published", "Nothing of it was published")
    return {**error, "hint": hint}
