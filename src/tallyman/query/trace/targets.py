"""Which targets of a run have a trace, and why others have none."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from tallyman.domain.history.run import Status
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.past_run import Run
from tallyman.engine.files.run_folder import TRACE
from tallyman.errors import NotFound, NoTrace, UsageError
from tallyman.query.trace.files import TraceFolder

UNCHANGING = 'none of its steps changes rows in place, or it sets trace="off"'


class TracedTargets:
    def __init__(self, run: Run, *, canceled: bool) -> None:
        self.run, self.canceled = run, canceled
        self._opened: dict[Target, TraceFolder | None] = {}

    def every(self, asset: str | None = None, partition: str | None = None) -> list[Target]:
        """List the run's targets; a day partition may be given with or without `d:`."""
        self.run.places(asset)  # refuses an unknown asset and suggests the nearest
        listed = [one.target for one in self.run.manifest.targets]
        keys = (partition, f"d:{partition}")
        found = [
            target
            for target in listed
            if asset in (None, target.asset) and (partition is None or target.partition in keys)
        ]
        if not found:
            raise NotFound(f"partition of {asset or 'any asset'} in run", f"{partition}")
        return found

    def folders(self, asset: str | None = None, partition: str | None = None) -> list[TraceFolder]:
        """Open at least one trace, or raise NoTrace."""
        targets = self.every(asset, partition)
        found = [folder for target in targets if (folder := self.folder(target)) is not None]
        if not found and len(targets) == 1:
            raise NoTrace(self.run.run_id, str(targets[0]), self.missing(targets[0]))
        if not found:
            reasons = sorted({self.missing(target) for target in targets})
            raise NoTrace(self.run.run_id, asset or "any asset", "; ".join(reasons))
        return found

    def one(self, asset: str | None, partition: str | None) -> TraceFolder:
        found = self.folders(asset, partition)
        if len(found) > 1:
            known = ", ".join(str(folder.target) for folder in found[:5])
            raise UsageError(f"{len(found)} traces match: {known}; give --asset and --partition")
        return found[0]

    def folder(self, target: Target) -> TraceFolder | None:
        if target not in self._opened:
            place = self._places.get(target)
            shown = os.path.relpath(place, self.run.folder) if place else ""
            vouched = self.run.vouched
            opened = TraceFolder.open(target, place, shown, vouched) if place else None
            self._opened[target] = opened
        return self._opened[target]

    def missing(self, target: Target) -> str:
        """Explain why the target has no trace."""
        status = next(
            (
                Status(made["status"])
                for made in (self.run.report or {}).get("assets", ())
                if (made["name"], made["partition"]) == (target.asset, target.partition)
            ),
            Status.SUCCESS,
        )
        if self.canceled and status not in (Status.PENDING, Status.SKIPPED):
            return "the run was canceled, and its trace was discarded"
        if status is Status.PENDING:
            return "it was not run"
        if status is Status.SKIPPED and target not in self._places:
            return "it was unchanged, and the folder of the run that made it is missing"
        if not status.good:
            return f"it is {status.value}, and none of its steps had started"
        return UNCHANGING

    @cached_property
    def all_discarded(self) -> bool:
        """True if the run was canceled and left no trace. One that was published first stays."""
        own = [place for place in self._places.values() if self.run.folder in place.parents]
        return self.canceled and not any((place / TRACE).is_dir() for place in own)

    @cached_property
    def _places(self) -> dict[Target, Path]:
        return self.run.places()
