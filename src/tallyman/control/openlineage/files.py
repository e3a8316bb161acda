"""Build the events of a run, for its folder and for the spool.

Nothing here may fail or delay a run: problems are reported at its end.
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

from tallyman.control.openlineage.events import (
    NAMESPACE,
    STATES,
    LineageAsset,
    LineageRun,
    asset_event,
    run_event,
    step_events,
)
from tallyman.control.openlineage.facets import RunState
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.manifest import Manifest
from tallyman.domain.history.run import AssetResult, Status
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.files.run_folder import LEDGER, MANIFEST, RunFolder

FOLDER = "lineage"
START, COMPLETE, FAIL = (f"{FOLDER}/run_{name}.json" for name in ("start", "complete", "fail"))
EVENTS = f"{FOLDER}/job_events.jsonl"
FILES = {"START": START, "COMPLETE": COMPLETE, "FAIL": FAIL, "ABORT": FAIL}

Assets = Callable[[], Sequence[LineageAsset]]


@dataclass
class Emitter:
    """Builds the events of one run. Store the returned events in the transaction of the change they
    report."""

    folder: RunFolder
    manifest: Mapping[str, Any] | None = None
    """The run's manifest, if it is not in the folder yet."""
    trouble: str | None = None
    """Why some events could not be built or written."""
    _last: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def run(self) -> LineageRun:
        written = self.manifest or json.loads((self.folder.path / MANIFEST).read_bytes())
        manifest = Manifest.of_json(written)
        return LineageRun(manifest=manifest, namespace=self._namespace())

    def _namespace(self) -> str:
        """Return the namespace that the run began with, even if another process reports its end."""
        if self.has(START):
            return str(json.loads((self.folder.path / START).read_bytes())["job"]["namespace"])
        return os.environ.get("OPENLINEAGE_NAMESPACE") or NAMESPACE

    # ---- the run --------------------------------------------------------------------------------

    def begun(self, assets: Assets = tuple) -> list[LineageEvent]:
        """Build START; for a resumed run, the original START and RUNNING."""
        if self.has(START):
            # The run may have been killed before START was spooled; the spool keeps a repeated
            # event once.
            return self._safely(
                lambda: [
                    LineageEvent(json.loads((self.folder.path / START).read_bytes())),
                    run_event(self.run, RunState.RUNNING, self._now()),
                ],
                list,
            )
        return self._safely(lambda: [self._start(assets())], lambda: [self._start(())])

    def _start(self, assets: Sequence[LineageAsset]) -> LineageEvent:
        """Build START with the run's start time, so that emitting it again gives the same event."""
        return run_event(self.run, RunState.START, self.run.manifest.started_at, assets)

    def closed(
        self, status: Status, assets: Assets = tuple, error: Mapping[str, object] | None = None
    ) -> list[LineageEvent]:
        """Build the last event. A run that waits for a decision has not ended."""
        if status in (Status.WAITING, Status.RUNNING):
            return []

        def build(assets: Sequence[LineageAsset]) -> list[LineageEvent]:
            return [run_event(self.run, STATES[status], self._now(), assets, error)]

        return self._safely(lambda: build(assets()), lambda: build(()))

    # ---- its targets ----------------------------------------------------------------------------

    def started(self, result: AssetResult, asset: Callable[[], LineageAsset]) -> list[LineageEvent]:
        def build(asset: LineageAsset) -> list[LineageEvent]:
            return [asset_event(self.run, asset, RunState.START, self._now())]

        return self._safely(lambda: build(asset()), lambda: build(_bare(result)))

    def ended(self, result: AssetResult, asset: Callable[[], LineageAsset]) -> list[LineageEvent]:
        """Build the events of the steps, then of the target itself."""

        def build(made: LineageAsset) -> list[LineageEvent]:
            steps = step_events(self.run, made, self._now) if made.ledger else []
            end = asset_event(self.run, made, STATES[made.result.status], self._now())
            return [*steps, end]

        return self._safely(lambda: build(asset()), lambda: build(_bare(result)))

    # ---- files ----------------------------------------------------------------------------------

    def record(self, events: Sequence[LineageEvent]) -> None:
        """Append events to job_events.jsonl, and write the run's start and end to their own
        files."""
        try:
            fresh = [event for event in events if not self._recorded(event)]
            lines = "".join(json.dumps(event.body, ensure_ascii=False) + "\n" for event in fresh)
            (self.folder.path / FOLDER).mkdir(exist_ok=True)
            with self._lock, open(self.folder.path / EVENTS, "a", encoding="utf-8") as file:
                file.write(lines)
            for event in fresh:
                if event.run == self.run.id and event.type in FILES:
                    self._put(event)
        except (OSError, ValueError) as error:
            self.trouble = f"{EVENTS}: {error}"

    def _put(self, event: LineageEvent) -> None:
        name = FILES[event.type]
        for other in {name} if name == START else {COMPLETE, FAIL}:
            self.folder.set_aside(other, 1)  # the file of an earlier end
        self.folder.write(name, event.body)

    def _recorded(self, event: LineageEvent) -> bool:
        """True if the event is the START of a resumed run, which is already in the folder."""
        return event.type == "START" and event.run == self.run.id and self.has(START)

    def has(self, name: str) -> bool:
        return (self.folder.path / name).exists()

    def _now(self) -> datetime:
        """Return a time later than that of any earlier event: times give the order of a run's
        events."""
        with self._lock:
            self._last = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
            return self._last

    def _safely(
        self, build: Callable[[], list[LineageEvent]], bare: Callable[[], list[LineageEvent]]
    ) -> list[LineageEvent]:
        """Build events; if that fails, build the `bare` form, so that an end is always emitted.
        Never raises: reporting the work must not undo the work."""
        for attempt in (build, bare):
            try:
                return [LineageEvent(_plain(event.body)) for event in attempt()]
            except Exception as error:
                self.trouble = self.trouble or f"{type(error).__name__}: {error}"
        return []


def _bare(result: AssetResult) -> LineageAsset:
    return LineageAsset(result=result, folder="")


def _plain(value: Any) -> Any:
    """Escape characters that PostgreSQL or UTF-8 cannot store."""
    if isinstance(value, str):
        return value.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_plain(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def described_by_folder(place: Path, folder: str, result: AssetResult) -> LineageAsset:
    """Describe a target by its files, without its definition: they are in `place`, and `folder` is
    their place in the project."""
    return LineageAsset(
        result=result,
        folder=folder,
        ledger=ledger_in(place) if (place / LEDGER).exists() else None,
        rejections=_json(place / "errors" / "_summary.json") or (),
    )


def _json(path: Path) -> Any:
    return json.loads(path.read_bytes()) if path.exists() else None
