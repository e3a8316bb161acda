"""Telling lineage tools what a run does: its events, into its folder and for the spool.

Nothing here may fail or hold up a run: what could not be told is said at its end.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from openlineage.client.event_v2 import RunState

from tallyman.control.lineage.events import (
    NAMESPACE,
    STATES,
    ToldAsset,
    ToldRun,
    asset_event,
    run_event,
    step_events,
)
from tallyman.domain.lineage_event import LineageEvent
from tallyman.domain.run import AssetResult, Status
from tallyman.engine.run_folder import MANIFEST, RunFolder

FOLDER = "lineage"
START, COMPLETE, FAIL = (f"{FOLDER}/run_{name}.json" for name in ("start", "complete", "fail"))
EVENTS = f"{FOLDER}/job_events.jsonl"
FILES = {"START": START, "COMPLETE": COMPLETE, "FAIL": FAIL, "ABORT": FAIL}


@dataclass
class Emitter:
    """For one run. What its methods return belongs into the transaction of what is told."""

    folder: RunFolder
    trouble: str | None = None
    """Why something could not be told."""
    _last: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def run(self) -> ToldRun:
        manifest = json.loads((self.folder.path / MANIFEST).read_bytes())
        given = os.environ.get("OPENLINEAGE_NAMESPACE")
        return ToldRun(manifest=manifest, namespace=given or NAMESPACE)

    # ---- the run --------------------------------------------------------------------------------

    def begun(self, assets: Callable[[], Sequence[ToldAsset]] = tuple) -> list[LineageEvent]:
        """START; of a run that goes on, RUNNING after the START it had."""

        def told() -> list[LineageEvent]:
            if not self.has(START):
                return [run_event(self.run, RunState.START, self._now(), assets())]
            # It may have been killed before the spool had it; told twice it is kept once.
            first = LineageEvent(json.loads((self.folder.path / START).read_bytes()))
            return [first, run_event(self.run, RunState.RUNNING, self._now())]

        return self._safely(told)

    def closed(
        self,
        status: Status,
        assets: Callable[[], Sequence[ToldAsset]] = tuple,
        error: Mapping[str, object] | None = None,
    ) -> list[LineageEvent]:
        """The last event. A run that waits for a decision has not ended."""
        if status in (Status.WAITING, Status.RUNNING):
            return []
        return self._safely(
            lambda: [run_event(self.run, STATES[status], self._now(), assets(), error)]
        )

    # ---- its targets ----------------------------------------------------------------------------

    def started(self, asset: Callable[[], ToldAsset]) -> list[LineageEvent]:
        return self._safely(lambda: [asset_event(self.run, asset(), RunState.START, self._now())])

    def ended(self, asset: Callable[[], ToldAsset]) -> list[LineageEvent]:
        """Its steps, then the target itself."""

        def told() -> list[LineageEvent]:
            made = asset()
            steps = step_events(self.run, made, self._now) if made.ledger else []
            end = asset_event(self.run, made, STATES[made.result.status], self._now())
            return [*steps, end]

        return self._safely(told)

    # ---- files ----------------------------------------------------------------------------------

    def record(self, events: Sequence[LineageEvent]) -> None:
        """A line each in job_events.jsonl; how the run began and ended in files of their own."""
        fresh = [event for event in events if not self._recorded(event)]
        lines = "".join(json.dumps(event.body, ensure_ascii=False) + "\n" for event in fresh)
        try:
            (self.folder.path / FOLDER).mkdir(exist_ok=True)
            with self._lock, open(self.folder.path / EVENTS, "a", encoding="utf-8") as file:
                file.write(lines)
            for event in fresh:
                if event.run == self.run.id and event.type in FILES:
                    self.folder.set_aside(FILES[event.type], 1)
                    self.folder.write(FILES[event.type], event.body)
        except OSError as error:
            self.trouble = f"{EVENTS}: {error}"

    def _recorded(self, event: LineageEvent) -> bool:
        """The START of a run that goes on."""
        return event.type == "START" and event.run == self.run.id and self.has(START)

    def has(self, name: str) -> bool:
        return (self.folder.path / name).exists()

    def _now(self) -> datetime:
        """No two events of a run are of one moment: their times are their order."""
        with self._lock:
            self._last = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
            return self._last

    def _safely(self, told: Callable[[], list[LineageEvent]]) -> list[LineageEvent]:
        try:
            return told()
        except Exception as error:
            # Whatever it is: the report of the work must not undo the work.
            self.trouble = f"{type(error).__name__}: {error}"
            return []


def told_by_folder(home: Path, folder: str, result: AssetResult) -> ToldAsset:
    """A target as its files tell it, without its definition."""
    place = home / folder
    return ToldAsset(
        result=result,
        folder=folder,
        ledger=_json(place / "ledger.json"),
        rejections=_json(place / "errors" / "_summary.json") or (),
    )


def _json(path: Path) -> Any:
    return json.loads(path.read_bytes()) if path.exists() else None
