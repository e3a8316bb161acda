"""What one execution tells lineage tools: its events, on their way while it works."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tallyman.control.definitions import Definitions
from tallyman.control.inputs import Pin
from tallyman.control.journal import Journal
from tallyman.control.lineage.emit import Emitter
from tallyman.control.lineage.outbox import Outbox
from tallyman.control.lineage.send import Sender
from tallyman.control.lineage.teller import Teller
from tallyman.domain.lineage_event import LineageEvent
from tallyman.domain.run import AssetResult, RunResult, Status
from tallyman.domain.target import Target
from tallyman.engine.run_folder import RunFolder

Events = list[LineageEvent]


@dataclass
class Telling:
    """Each method gives what is told to `write`, which puts it into the registry together with
    what it tells of; the run's folder has it after that."""

    definitions: Definitions
    journal: Journal
    folder: RunFolder
    _sender: Sender | None = None
    _begun: set[tuple[Target, int]] = field(default_factory=set)
    _emitter: Emitter = field(init=False)

    def __post_init__(self) -> None:
        self._emitter = Emitter(self.folder, self.journal.run.project)

    @cached_property
    def _teller(self) -> Teller:
        return Teller(self.definitions, self._emitter.run, self.journal.run.folder)

    def begun(self, targets: Sequence[Target]) -> None:
        settings = self.definitions.settings
        outbox = Outbox.of(self.journal.database, settings.name, settings.home)
        self._sender = Sender(outbox).start()
        events = self._emitter.begun(lambda: self._teller.planned(targets))
        self._tell(events, self.journal.tell)

    def started(self, target: Target, attempt: int, write: Callable[[Events], None]) -> None:
        self._tell(self._starting(target, attempt), write)

    def _starting(self, target: Target, attempt: int) -> Events:
        self._begun.add((target, attempt))
        result = AssetResult(
            name=target.asset, partition=target.partition, status=Status.RUNNING, attempt=attempt
        )
        return self._emitter.started(result, lambda: self._teller.starting(target, attempt))

    def ended(
        self,
        target: Target,
        result: AssetResult,
        pins: Mapping[str, Pin],
        write: Callable[[Events], None],
    ) -> None:
        events = self._emitter.ended(result, lambda: self._teller.ended(target, result, pins))
        self._tell(events, write)

    def failed(self, target: Target, result: AssetResult, write: Callable[[Events], None]) -> None:
        """Without a result. It may have failed before anybody was told that it began."""
        told = (target, result.attempt) in self._begun
        begun = [] if told else self._starting(target, result.attempt)
        ended = self._emitter.ended(result, lambda: self._teller.ended(target, result, {}))
        self._tell([*begun, *ended], write)

    def closed(self, result: RunResult, targets: Sequence[Target]) -> Events:
        """In the folder at once: what is written after this has its seal."""
        results = dict(zip(targets, result.assets, strict=True))
        events = self._emitter.closed(
            result.status, lambda: self._teller.all_of(results, result.commit), result.error
        )
        self._emitter.record(events)
        return events

    def close(self) -> list[str]:
        """What a person has to know of it; the receiver has what it was well enough to take."""
        kept = self._sender.close() if self._sender else None
        trouble = self._emitter.trouble
        told = f"lineage: not all could be told: {trouble}" if trouble else None
        return [line for line in (kept, told) if line]

    def _tell(self, events: Events, write: Callable[[Events], None]) -> None:
        write(events)
        self._emitter.record(events)
        if self._sender:
            self._sender.wake()
