"""Close runs whose process died, was canceled by force, or ended before a decision, and emit their
final lineage events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tallyman.control.conclude import finish
from tallyman.control.openlineage.events import STATES, LineageAsset
from tallyman.control.openlineage.files import FILES, START, Emitter, described_by_folder
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.run import RunResult, Status
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.run_folder import RunFolder
from tallyman.registry.database import Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs
from tallyman.registry.spool import Spool

Events = list[LineageEvent]


def release(
    tx: Transaction, home: Path, run: RunRecord, why: str, *, canceled: bool = False
) -> tuple[Status | None, Events]:
    """Take the run from its process, and spool its final lineage events in the same transaction.
    Pass the returned events to `record` after the commit. The status is None if the run has moved
    on by itself."""
    # Lock first: otherwise a target could finish after it was read here, and end twice.
    Runs(tx).lock(run.id)
    at_work = [row for row in Materializations(tx).of_run(run.id) if row.status is Status.RUNNING]
    status = Runs(tx).release(run, why, canceled=canceled)
    if status is None:
        return None, []
    emitter = _emitter(home, run)
    if not (emitter.has(START) or Spool(tx).knows(run.id)):
        return status, []  # no START event was emitted
    events = _aborted(emitter, status, at_work, why)
    spool(tx, run, events)
    return status, events


def spool(tx: Transaction, run: RunRecord, events: Sequence[LineageEvent]) -> None:
    """Spool final events if the START event was spooled, regardless of this process's settings."""
    if events and Spool(tx).knows(run.id):
        Spool(tx).add(run.project, run.id, events)


def record(home: Path, run: RunRecord, events: Sequence[LineageEvent]) -> None:
    if events:
        _emitter(home, run).record(events)


def concluded(home: Path, run: RunRecord, result: RunResult) -> Events:
    """Build the final events of a run that waited for a decision, from its files. Builds them once,
    even after several decisions."""
    emitter = _emitter(home, run)
    if not emitter.has(START) or result.status not in STATES:
        return []
    name = FILES.get(STATES[result.status].value)
    if result.status is not Status.WAITING and name and emitter.has(name):
        return []

    def assets() -> list[LineageAsset]:
        folders = emitter.run.manifest.folders
        return [
            described_by_folder(
                home, f"{run.folder}/{folders[Target(made.name, made.partition)]}", made
            )
            for made in result.assets
            if made.status not in (Status.SKIPPED, Status.PENDING, Status.WAITING)
        ]

    return emitter.closed(result.status, assets, result.error)


def _emitter(home: Path, run: RunRecord) -> Emitter:
    return Emitter(RunFolder(home / run.folder), run.project)


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
