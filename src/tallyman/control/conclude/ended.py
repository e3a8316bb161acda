"""Release runs whose process died or was canceled by force, and build the last lineage events of a
run from its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tallyman.control.conclude import finish
from tallyman.control.openlineage.events import STATES, LineageAsset
from tallyman.control.openlineage.files import FILES, START, Emitter, described_by_folder
from tallyman.control.publish import discard
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.run import RunResult, Status
from tallyman.engine.files.run_folder import RunFolder
from tallyman.registry.database import Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs
from tallyman.registry.spool import Spool

Events = list[LineageEvent]


@dataclass(frozen=True, slots=True)
class Released:
    """A run taken from its process; pass it to `record` after the commit. The status is None if the
    run has moved on by itself."""

    run: RunRecord
    status: Status | None = None
    events: Events = field(default_factory=list)
    discarded: Sequence[Path] = ()


def release(
    tx: Transaction, home: Path, run: RunRecord, why: str, *, canceled: bool = False
) -> Released:
    """Take the run from its process, spool its final lineage events, and discard the trace of a
    canceled run, in the same transaction."""
    # Lock first: otherwise a target could finish after it was read here, and end twice.
    Runs(tx).lock(run.id)
    at_work = [row for row in Materializations(tx).of_run(run.id) if row.status is Status.RUNNING]
    status = Runs(tx).release(run, why, canceled=canceled)
    if status is None:
        return Released(run)
    discarded = discard.mark(tx, home, run) if status is Status.CANCELED else ()
    emitter, events = _emitter(home, run), Events()
    if emitter.has(START) or Spool(tx).knows(run.id):  # otherwise no START event was emitted
        events = _aborted(emitter, status, at_work, why)
        spool(tx, run, events)
    return Released(run, status, events, discarded)


def spool(tx: Transaction, run: RunRecord, events: Sequence[LineageEvent]) -> None:
    """Spool final events if the START event was spooled, regardless of this process's settings."""
    if events and Spool(tx).knows(run.id):
        Spool(tx).add(run.owner, run.id, events)


def record(home: Path, released: Released) -> None:
    """Write the events of a released run, and remove what it must not keep."""
    if released.events:
        _emitter(home, released.run).record(released.events)
    discard.remove(released.discarded)


def last_events(home: Path, run: RunRecord, result: RunResult) -> Events:
    """Build the last events of a run from its files, and write them to its folder. Builds them
    once, even after several decisions."""
    emitter = _emitter(home, run)
    if not emitter.has(START) or result.status not in STATES:
        return []
    name = FILES.get(STATES[result.status].value)
    if result.status is not Status.WAITING and name and emitter.has(name):
        return []

    def assets() -> list[LineageAsset]:
        names = emitter.run.manifest.folders
        return [
            described_by_folder(home / (place := f"{run.folder}/{names[made.target]}"), place, made)
            for made in result.assets
            if made.status not in (Status.SKIPPED, Status.PENDING, Status.WAITING)
        ]

    events = emitter.closed(result.status, assets, result.error)
    if events:
        emitter.record(events)
    return events


def _emitter(home: Path, run: RunRecord) -> Emitter:
    return Emitter(RunFolder(home / run.folder), run.owner.project)


def _aborted(
    emitter: Emitter, status: Status, at_work: Sequence[Materialization], why: str
) -> Events:
    error = {"code": "interrupted", "message": why}
    events: Events = []
    for row in at_work:
        result = replace(finish.result_of(row), status=status, error=error)
        described = LineageAsset(result=result, folder="")
        events += emitter.ended(result, lambda described=described: described)
    return [*events, *emitter.closed(status, error=error)]
