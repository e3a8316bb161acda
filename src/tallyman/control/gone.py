"""The end of a run that its own process cannot tell any more: it was killed, or taken from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tallyman.control import finish
from tallyman.control.lineage.destination import disabled
from tallyman.control.lineage.emit import START, Emitter, told_by_folder
from tallyman.control.lineage.events import ToldAsset
from tallyman.domain.lineage_event import LineageEvent
from tallyman.domain.materialization import Materialization, RunRecord
from tallyman.domain.run import RunResult, Status
from tallyman.engine.run_folder import RunFolder
from tallyman.registry.database import Transaction
from tallyman.registry.materializations import Materializations
from tallyman.registry.runs import Runs
from tallyman.registry.spool import Spool

Events = list[LineageEvent]


def release(
    tx: Transaction, home: Path, run: RunRecord, why: str, *, canceled: bool = False
) -> tuple[Status | None, Events]:
    """Take the run from its process, and say so to lineage tools in the same transaction. The
    events are for `record`, once it is committed. None: the run moved on by itself."""
    at_work = [row for row in Materializations(tx).of_run(run.id) if row.status is Status.RUNNING]
    status = Runs(tx).release(run, why, canceled=canceled)
    if status is None:
        return None, []
    events = _aborted(home, run, status, at_work, why)
    spool(tx, run, events)
    return status, events


def spool(tx: Transaction, run: RunRecord, events: Sequence[LineageEvent]) -> None:
    if not disabled():
        Spool(tx).add(run.project, run.id, events)


def record(home: Path, run: RunRecord, events: Sequence[LineageEvent]) -> None:
    if events:
        Emitter(RunFolder(home / run.folder)).record(events)


def settled(home: Path, run: RunRecord, result: RunResult) -> Events:
    """The end of a run that waited for a decision, as its files tell it."""
    emitter = Emitter(RunFolder(home / run.folder))
    if not emitter.has(START):
        return []
    folders = {(t["asset"], t["partition"]): t["folder"] for t in emitter.run.manifest["targets"]}

    def assets() -> list[ToldAsset]:
        return [
            told_by_folder(home, f"{run.folder}/{folders[made.name, made.partition]}", made)
            for made in result.assets
            if made.status not in (Status.SKIPPED, Status.PENDING)
        ]

    return emitter.closed(result.status, assets, result.error)


def _aborted(
    home: Path, run: RunRecord, status: Status, at_work: Sequence[Materialization], why: str
) -> Events:
    emitter = Emitter(RunFolder(home / run.folder))
    if not emitter.has(START):
        return []  # nobody was told that it began
    error = {"code": "interrupted", "message": why}
    events: Events = []
    for row in at_work:
        result = replace(finish.result_of(row), status=status, error=error)
        told = ToldAsset(result=result, folder=run.folder)
        events += emitter.ended(lambda told=told: told)
    return [*events, *emitter.closed(status, error=error)]
