"""Start, resume and cancel runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from tallyman.control.bind.inputs import Pins
from tallyman.control.conclude import process, upkeep
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.publish.commit import refuse_rolled_back
from tallyman.control.seal.signature import signer
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.options import Options, RunParams
from tallyman.domain.history.run import RunIdentity, Status
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.domain.pipeline.target import Reading, Target, readings
from tallyman.domain.version.dataset import Dataset, Kind
from tallyman.errors import (
    BreakerOpen,
    DependencyNotReady,
    NotRunning,
    PlaceUnusable,
    PlanOutdated,
    ReplayInterrupted,
    UsageError,
)
from tallyman.on_demand import OnDemand, imported_meanwhile
from tallyman.registry.audit import Audit
from tallyman.registry.database import Database, Transaction
from tallyman.registry.run.breakers import Breakers
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.run.runs import Runs
from tallyman.registry.version.datasets import Datasets
from tallyman.settings import Settings

MAKING = (
    "tallyman.control.run.journal",
    "tallyman.control.run.workbench",
    "tallyman.control.run.target",
    "tallyman.control.run.execute",
    "tallyman.control.conclude.ended",
)
if TYPE_CHECKING:
    from tallyman.control.conclude import ended
    from tallyman.control.run import execute, journal, target, workbench
    from tallyman.control.run.progress import Listener
else:
    journal, workbench, target, execute, ended = map(OnDemand, MAKING)


@dataclass(frozen=True, slots=True)
class Begun:
    """A request for a run: who asks, and for which targets."""

    actor: str
    identity: RunIdentity
    targets: list[Target]
    options: Options
    pins: Mapping[UUID, int] | None = None
    """The versions that the request was based on; None means the current ones."""
    meta: Mapping[str, str] = field(default_factory=dict)
    """Notes about the run, by name."""


def targets_of(
    pipeline: Pipeline, assets: Sequence[str], partitions: Sequence[str] | None
) -> list[Target]:
    """List the targets of the assets and partitions. Only a partitioned asset needs partitions."""
    found: list[Target] = []
    partitioned = [name for name in assets if pipeline.assets[name].partitioned_by]
    if partitioned and not partitions:
        raise UsageError(
            f"{', '.join(partitioned)} {'is' if len(partitioned) == 1 else 'are'} partitioned: "
            "choose one with --partition, or use `tallyman backfill`"
        )
    if partitions and not partitioned:
        raise UsageError(f"--partition: none of {', '.join(assets)} is partitioned")
    for name in assets:
        declared = pipeline.assets[name].partitioned_by
        if declared is None:
            found.append(Target(name))
        else:
            found += [Target(name, declared.parse(text)) for text in partitions or ()]
    return found


def check_ready(pipeline: Pipeline, targets: Sequence[Target], pins: Pins) -> None:
    """Check before the run starts that everything it reads and does not make exists."""
    made = set(targets)
    assets = {target.asset for target in targets}
    lacking: dict[Reading, list[Target]] = {}
    missing: list[tuple[str, str]] = []
    for target in targets:
        for reading in readings(pipeline, target):
            if reading.of_source or Target(reading.name, reading.partition) in made:
                continue
            if reading not in lacking:
                lacking[reading] = [t for t in pins.lacking(reading) if t not in made]
            # If the run makes a partition of it, there will be something to read.
            whole = Target(reading.name)
            found = [t for t in lacking[reading] if t != whole or reading.name not in assets]
            missing += [(str(target), str(read)) for read in found]
    if missing:
        raise DependencyNotReady(missing)


def check_places(settings: Settings) -> None:
    """Check before anything is registered that the run's files can be written."""
    places = {"runs": settings.runs_folder, "warehouse": settings.warehouse_folder}
    for name, place in (places | {".tallyman": settings.state_folder}).items():
        if reason := _unusable(place):
            raise PlaceUnusable(name, os.path.relpath(place, settings.home), reason)


def _unusable(place: Path) -> str | None:
    """Say why a folder cannot be written to, or cannot be made; None if it can."""
    there = next(one for one in (place, *place.parents) if os.path.lexists(one))
    if not there.is_dir():
        what = "a link to nothing" if there.is_symlink() and not there.exists() else "not a folder"
        return f"{there.name!r} is {what}"
    return None if os.access(there, os.W_OK | os.X_OK) else f"{there.name!r} cannot be written to"


def check_breakers(definitions: Definitions, assets: Iterable[str]) -> None:
    """Refuse to make an asset whose breaker somebody has to close first."""
    declared = definitions.pipeline.assets
    held = [a for a in assets if definitions.thresholds(declared[a]).on_break == "hold"]
    if not held:
        return
    project = definitions.settings.name
    found = definitions.database.durably(lambda tx: Breakers(tx).first_open(project, held))
    if found is not None:
        raise BreakerOpen(found.asset, found.run, found.since, found.reason)


def begin(asked: Begun, definitions: Definitions, listen: Listener) -> execute.Execution:
    """Check and register a run, which this process then holds."""
    with imported_meanwhile(*MAKING):
        registered = register(asked, definitions)
    bench = workbench.Workbench.of(definitions, registered, asked.options, asked.targets, listen)
    return execute.Execution(bench, target.TargetMaker(bench))


def register(asked: Begun, definitions: Definitions) -> journal.Journal:
    """Check the request, and register the run with this process as its executor."""
    settings, database = definitions.settings, definitions.database
    check_places(settings)
    upkeep.upkeep(database, settings)
    check_breakers(definitions, {target.asset for target in asked.targets})
    sign = database.durably(lambda tx: signer(tx, settings))
    names = list(dict.fromkeys(target.asset for target in asked.targets))
    found = database.durably(lambda tx: _register(tx, definitions, names))
    pinned = found if asked.pins is None else dict(asked.pins)
    version = definitions.version()
    active = database.durably(lambda tx: Pipelines(tx).active(settings.name))
    if not asked.options.plan:
        database.durably(lambda tx: refuse_rolled_back(tx, settings.name, version))
    pins = Pins(definitions.workspace, ordinals=pinned)
    check_ready(definitions.pipeline, asked.targets, pins)
    definitions.check_what_is_new()
    identity = asked.identity
    executor, node = uuid4(), process.node()
    run = RunRecord(
        id=UUID(identity.openlineage_run_id),
        name=identity.run_id,
        project=settings.name,
        status=Status.RUNNING,
        folder=f"{settings.runs}/{identity.folder_name}",
        actor=asked.actor,
        started_at=identity.started_at,
        params=_params(asked, definitions.pipeline, version, active[0] if active else None),
        pins=pinned,
        executor=executor,
        executor_node=node,
    )
    registered = journal.Journal(database, run, executor, node, asked.actor, sign)
    registered.begin(asked.targets, definitions.description())
    return registered


def _register(tx: Transaction, definitions: Definitions, assets: Sequence[str]) -> dict[UUID, int]:
    """Register the datasets to be made, and return the current version of every dataset."""
    for wanted in datasets_of(definitions.pipeline, definitions.settings.name, assets):
        Datasets(tx).ensure(wanted)
    return Datasets(tx).ordinals(definitions.settings.name)


def datasets_of(pipeline: Pipeline, project: str, assets: Sequence[str]) -> list[Dataset]:
    """List the datasets to register before assets are made."""
    found = []
    for name in assets:
        asset = pipeline.assets[name]
        split = asset.partitioned_by
        found.append(
            Dataset(
                id=UUID(int=0),
                name=asset.dataset,
                kind=Kind.ASSET,
                project=project,
                producer=name,
                key_columns=asset.unique_key or asset.key,
                partition_column=split.column if split else None,
                published=asset.publish is not False,
            )
        )
    return found


def _params(asked: Begun, pipeline: Pipeline, version: str, before: str | None) -> RunParams:
    assets = dict.fromkeys(target.asset for target in asked.targets)
    appended = [name for name in assets if pipeline.assets[name].update_strategy == "append"]
    return RunParams(
        options=asked.options,
        assets=tuple(assets),
        append=tuple(appended),
        pipeline_version=version,
        pipeline_before=before,
        meta=asked.meta,
    )


def resume(
    run: RunRecord, actor: str, definitions: Definitions, options: Options, listen: Listener
) -> execute.Execution:
    """Resume a run: successful results stay, the rest is made by the current pipeline."""
    version, project = definitions.version(), definitions.settings.name
    if run.params.options.replay_of:
        _check_replayed(definitions.database, run)
    if options.plan is None:
        definitions.database.durably(lambda tx: refuse_rolled_back(tx, project, version))
    elif options.plan.pipeline_to != version:
        raise PlanOutdated(options.plan.id, "the pipeline was edited since")
    check_places(definitions.settings)
    with imported_meanwhile(*MAKING):
        definitions.check_what_is_new()
    sign = definitions.database.durably(lambda tx: signer(tx, definitions.settings))
    executor, node = uuid4(), process.node()
    run = replace(run, params=replace(run.params, pipeline_version=version))
    claimed = journal.Journal(definitions.database, run, executor, node, actor, sign)
    claimed.claim(definitions.description())
    targets = targets_in(definitions.database, run)
    bench = workbench.Workbench.of(definitions, claimed, options, targets, listen)
    return execute.Execution(bench, target.TargetMaker(bench))


def _check_replayed(database: Database, run: RunRecord) -> None:
    """Refuse to resume a replay whose targets did not all succeed: its records were lost with its
    process."""
    rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
    if not all(row.status.good or row.status is Status.WAITING for row in rows):
        raise ReplayInterrupted(run.name, str(run.params.options.replay_of))


def targets_in(database: Database, run: RunRecord) -> list[Target]:
    rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
    return [row.target for row in rows]


def cancel(database: Database, settings: Settings, run: RunRecord, timeout_s: float) -> Status:
    """Ask the run's process to stop; after the timeout, cancel the run by force."""

    def ask(tx: Transaction) -> None:
        if not Runs(tx).request_cancel(run.id):
            raise NotRunning(run.name, run.status.value)
        Audit(tx).add("run.cancel_requested", settings.actor, run.name, run=run.id)

    database.durably(ask)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        now = database.durably(lambda tx: Runs(tx).by_id(run.id))
        if now.status is not Status.RUNNING:
            return now.status
        if process.is_gone(now):
            break
        time.sleep(0.2)
    return _take_away(database, settings, run, timeout_s)


def _take_away(database: Database, settings: Settings, run: RunRecord, timeout_s: float) -> Status:
    actor = settings.actor

    def work(tx: Transaction) -> tuple[Status, ended.Events]:
        runs = Runs(tx)
        why = f"canceled by {actor}; its process did not stop in {timeout_s:g} s"
        now = runs.by_id(run.id)
        status, events = ended.release(tx, settings.home, now, why, canceled=True)
        Audit(tx).add("run.canceled", actor, run.name, run=run.id, details={"forced": True})
        return status or runs.by_id(run.id).status, events

    status, events = database.durably(work)
    ended.record(settings.home, run, events)
    return status
