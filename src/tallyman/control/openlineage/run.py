"""Build the OpenLineage events of one run, and send them while it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tallyman.control.bind.pinned_files import Pin
from tallyman.control.delivery.outbox import Outbox
from tallyman.control.delivery.send import Sender
from tallyman.control.openlineage.asset import AssetFacts
from tallyman.control.openlineage.files import Emitter
from tallyman.control.pipeline.definitions import Definitions
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.run import AssetResult, RunResult, Status
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.run_folder import RunFolder

Events = list[LineageEvent]


@dataclass
class RunEvents:
    """Builds the events of one run. The caller stores them in the registry together with the change
    that they report, and then calls `recorded`."""

    definitions: Definitions
    run: RunRecord
    folder: RunFolder
    manifest: Mapping[str, Any] | None = None
    """The run's manifest, if it is not in the folder yet."""
    _sender: Sender | None = None
    _begun: set[tuple[Target, int]] = field(default_factory=set)
    _emitter: Emitter = field(init=False)

    def __post_init__(self) -> None:
        self._emitter = Emitter(self.folder, self.manifest)

    @cached_property
    def _assets(self) -> AssetFacts:
        return AssetFacts(self.definitions, self._emitter.run, self.run.folder)

    def begun(self, targets: Sequence[Target]) -> Events:
        """Start the sender, and build the run's first events."""
        database, settings = self.definitions.database, self.definitions.settings
        self._sender = Sender(Outbox.of(database, settings.owner, settings.home)).start()
        return self.first(targets)

    def first(self, targets: Sequence[Target]) -> Events:
        """Build the run's first events."""
        return self._emitter.begun(lambda: self._assets.planned(targets))

    def started(self, target: Target, attempt: int) -> Events:
        self._begun.add((target, attempt))
        result = AssetResult.of(target, Status.RUNNING, attempt=attempt)
        return self._emitter.started(result, lambda: self._assets.starting(target, attempt))

    def ended(
        self,
        target: Target,
        result: AssetResult,
        pins: Mapping[str, Pin],
        place: Path | None = None,
        rejections: Sequence[str] | None = None,
    ) -> Events:
        """Build the end of a target. `place` is where its files are now; `rejections` lists the
        files of its rejections, if they are published."""
        return self._emitter.ended(
            result, lambda: self._assets.ended(target, result, pins, place, rejections)
        )

    def failed(self, target: Target, result: AssetResult) -> Events:
        """Return the end of a target without a result, and its start if none was sent."""
        known = (target, result.attempt) in self._begun
        begun = [] if known else self.started(target, result.attempt)
        return [*begun, *self.ended(target, result, {})]

    def recorded(self, events: Events) -> None:
        """Append events to the run folder once the registry has them."""
        self._emitter.record(events)
        if self._sender:
            self._sender.wake()

    def closed(self, result: RunResult) -> Events:
        """Build the run's last events, and write them to its folder before it is sealed."""
        results = {made.target: made for made in result.assets}
        events = self._emitter.closed(
            result.status, lambda: self._assets.all_of(results, result.commit), result.error
        )
        self._emitter.record(events)
        return events

    def close(self) -> list[str]:
        """Stop sending. Return notes for the user: what was kept, what could not be built."""
        kept = self._sender.close() if self._sender else None
        trouble = self._emitter.trouble
        lost = f"lineage: some events could not be built: {trouble}" if trouble else None
        return [line for line in (kept, lost) if line]
