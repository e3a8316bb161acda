"""Start and resume runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from tallyman.control.bind.inputs import Pins
from tallyman.control.conclude import process, upkeep
from tallyman.control.dispatch.follow import check_pools
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.shared import find_shared, read_by
from tallyman.control.publish.commit import refuse_rolled_back
from tallyman.control.publish.declared import datasets_of
from tallyman.control.seal.signature import signer
from tallyman.control.target.make_target import MAKING_TARGETS, SPARK
from tallyman.domain.definition.working_step import Output
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.options import Options, RunParams
from tallyman.domain.history.run import RunIdentity, Status
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.domain.pipeline.pipeline_version import PipelineVersion
from tallyman.domain.pipeline.target import Reading, Target, readings
from tallyman.errors import (
    BreakerOpen,
    DependencyNotReady,
    PlaceUnusable,
    PlanOutdated,
    ReplayInterrupted,
    SingleProducer,
    TallymanError,
    UsageError,
)
from tallyman.on_demand import OnDemand, imported_meanwhile
from tallyman.registry.database import Database, Transaction
from tallyman.registry.run.breakers import Breakers
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.version.datasets import Datasets
from tallyman.settings import Settings

MAKING = (
    "tallyman.control.run.journal",
    "tallyman.control.run.workbench",
    "tallyman.control.run.target",
    "tallyman.control.run.execute",
)
if TYPE_CHECKING:
    from tallyman.control.run import execute, journal, target, workbench
    from tallyman.control.run.progress import Listener
else:
    journal, workbench, target, execute = map(OnDemand, MAKING)


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


def check_partitions(pipeline: Pipeline, targets: Sequence[Target]) -> None:
    """Refuse a partition that its asset does not declare: no record would belong to it."""
    for target in targets:
        declared = pipeline.assets[target.asset].partitioned_by
        if declared is not None and target.partition is not None:
            declared.parse(target.partition)


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
    owner = definitions.settings.owner
    found = definitions.database.durably(lambda tx: Breakers(tx).first_open(owner, held))
    if found is not None:
        raise BreakerOpen(found.asset, found.run, found.since, found.reason)


def begin(asked: Begun, definitions: Definitions, listen: Listener) -> execute.Execution:
    """Check and register a run, which this process then holds."""
    registered = register(asked, definitions)
    bench = workbench.Workbench.of(definitions, registered, asked.options, asked.targets, listen)
    return execute.Execution(bench, target.TargetMaker(bench))


def register(asked: Begun, definitions: Definitions) -> journal.Journal:
    """Check the request, and register the run with this process as its executor."""
    settings, database = definitions.settings, definitions.database
    check_places(settings)
    if database.is_new:
        # Every definition is new then: Spark starts while the database is made.
        with database.made_meanwhile():
            _check(definitions)
    upkeep.upkeep(database, settings)
    sign = database.durably(lambda tx: signer(tx, settings))
    version = definitions.pipeline_version()
    run = held_here(planned(asked, definitions, version))
    _check_what_is_new(definitions)
    registered = journal.Journal(database, run, asked.actor, sign)
    registered.begin(asked.targets, version)
    return registered


def _check_what_is_new(definitions: Definitions) -> None:
    """Check assets whose current definition has never succeeded, before the run begins."""
    if not definitions.is_checked and definitions.has_new():
        _check(definitions)


def _check(definitions: Definitions) -> None:
    with imported_meanwhile(*MAKING, *MAKING_TARGETS, after=SPARK):
        definitions.checked()


def planned(asked: Begun, definitions: Definitions, version: PipelineVersion) -> RunRecord:
    """Check that the run may begin and that its inputs are there, register the datasets to be made,
    and pin what is read. Nobody executes the run yet."""
    settings, database = definitions.settings, definitions.database
    check_partitions(definitions.pipeline, asked.targets)
    check_breakers(definitions, {target.asset for target in asked.targets})
    names = list(dict.fromkeys(target.asset for target in asked.targets))
    own, others = database.durably(lambda tx: _register(tx, definitions, names))
    pinned = others | (own if asked.pins is None else dict(asked.pins))
    active = database.durably(lambda tx: Pipelines(tx).active(settings.owner))
    if not asked.options.plan:
        names_of_version = definitions.workspace.version_names()
        database.durably(lambda tx: refuse_rolled_back(tx, settings.owner, names_of_version))
    pins = Pins(definitions.workspace, ordinals=pinned)
    check_ready(definitions.pipeline, asked.targets, pins)
    identity = asked.identity
    return RunRecord(
        id=UUID(identity.openlineage_run_id),
        name=identity.run_id,
        owner=settings.owner,
        status=Status.RUNNING,
        folder=f"{settings.runs}/{identity.folder_name}",
        actor=asked.actor,
        started_at=identity.started_at,
        params=_params(asked, definitions.pipeline, version.hash, active[0] if active else None),
        pins=pinned,
    )


def _register(
    tx: Transaction, definitions: Definitions, assets: Sequence[str]
) -> tuple[dict[UUID, int], dict[UUID, int]]:
    """Register the datasets to be made, and return the current version of every dataset: of this
    pipeline, and of others as far as it needs them."""
    settings = definitions.settings
    Pipelines(tx).place(settings.owner, str(settings.home), str(settings.warehouse_folder))
    for name in assets:
        for wanted in datasets_of(definitions.pipeline.assets[name], settings.owner):
            Datasets(tx).ensure(wanted)
    _check_outputs(tx, definitions, assets)
    check_pools(tx, settings.owner, definitions.pipeline.assets.values())
    shared = [
        find_shared(tx, settings.owner, one).id for one in read_by(definitions.pipeline, assets)
    ]
    return Datasets(tx).ordinals(settings.owner), Datasets(tx).others(settings.owner, shared)


def _check_outputs(tx: Transaction, definitions: Definitions, assets: Sequence[str]) -> None:
    """Refuse output steps that would register a dataset that another pipeline produces."""
    owner = definitions.settings.owner
    for asset in assets:
        plan = None
        with contextlib.suppress(TallymanError):  # mistakes are reported with all others
            plan = definitions.pipeline.assets[asset].plan()
        for step in plan.steps() if plan is not None else ():
            if isinstance(step, Output) and step.register_as is not None:
                found = Datasets(tx).find(step.register_as, owner.org)
                if found is not None and found.owner != owner and found.current_version:
                    raise SingleProducer(found.name, found.producer, found.owner.project)


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
        row_ids=asked.identity.row_ids,
    )


def resume(
    run: RunRecord, actor: str, definitions: Definitions, options: Options, listen: Listener
) -> execute.Execution:
    """Resume a run: successful results stay, the rest is made by the current pipeline."""
    claimed = claim(run, actor, definitions, options)
    targets = targets_in(definitions.database, run)
    bench = workbench.Workbench.of(definitions, claimed, options, targets, listen)
    return execute.Execution(bench, target.TargetMaker(bench))


def claim(
    run: RunRecord, actor: str, definitions: Definitions, options: Options
) -> journal.Journal:
    """Check that the run may be resumed, and claim it for this process."""
    version, owner = definitions.pipeline_version(), definitions.settings.owner
    if run.params.options.replay_of:
        _check_replayed(definitions.database, run)
    if options.plan is None:
        names = definitions.workspace.version_names()
        definitions.database.durably(lambda tx: refuse_rolled_back(tx, owner, names))
    elif options.plan.pipeline_to != version.hash:
        raise PlanOutdated(options.plan.id, "the pipeline was edited since")
    check_places(definitions.settings)
    _check_what_is_new(definitions)
    sign = definitions.database.durably(lambda tx: signer(tx, definitions.settings))
    claims = held_here(replace(run, params=replace(run.params, pipeline_version=version.hash)))
    claimed = journal.Journal(definitions.database, claims, actor, sign)
    claimed.claim(version, run.status)
    return claimed


def held_here(run: RunRecord) -> RunRecord:
    """Return the run as one that this process executes."""
    return replace(run, status=Status.RUNNING, executor=uuid4(), executor_node=process.node())


def _check_replayed(database: Database, run: RunRecord) -> None:
    """Refuse to resume a replay whose targets did not all succeed: its records were lost with its
    process."""
    rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
    if not all(row.status.good or row.status is Status.WAITING for row in rows):
        raise ReplayInterrupted(run.name, str(run.params.options.replay_of))


def targets_in(database: Database, run: RunRecord) -> list[Target]:
    rows = database.durably(lambda tx: Materializations(tx).of_run(run.id))
    return [row.target for row in rows]
