"""Follow: listeners and schedules are those of the active version of a pipeline, in the same
transaction that makes it active."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from tallyman.control.dispatch.cron import Cron
from tallyman.control.dispatch.partitions import partition_config
from tallyman.control.dispatch.steps import put_schedule
from tallyman.domain.compiled import form
from tallyman.domain.pipeline.follows import followed
from tallyman.domain.pipeline.pipeline import Asset, Pipeline
from tallyman.domain.pipeline.trigger import MANUAL, Schedule
from tallyman.domain.task.event import Scope
from tallyman.domain.task.task import (
    DEFAULT_POOL,
    DEFAULT_RETRY,
    TARGET,
    NewTask,
    TaskTemplate,
    TriggerKind,
    invalidation_key,
)
from tallyman.domain.version.dataset import Dataset, Kind
from tallyman.domain.version.owner import Owner
from tallyman.errors import PoolMissing
from tallyman.errors.wording import nearest
from tallyman.registry.database import Transaction
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.task.events import Listeners
from tallyman.registry.task.pools import Pools
from tallyman.registry.task.schedules import Schedules
from tallyman.registry.task.tasks import Tasks
from tallyman.registry.version.datasets import Datasets, readable


def follow(tx: Transaction, owner: Owner, version: str) -> None:
    """Replace the listeners and schedules of a pipeline by those of this version. Tasks of no run
    that nobody has begun are made by it, or canceled if it has no trigger for their asset."""
    pipeline = _with_triggers(tx, owner, version)
    assets = [a for a in pipeline.assets.values() if a.trigger != MANUAL] if pipeline else []
    check_pools(tx, owner, assets)
    listening: list[tuple[UUID, str]] = []
    for asset in assets:
        config = partition_config(asset.partitioned_by)
        template = template_of(asset, owner, version, config)
        if isinstance(asset.trigger, Schedule):
            ticks = Cron(asset.trigger.cron, asset.trigger.timezone)
            put_schedule(tx, asset.name, ticks, template)
        for dataset in _datasets(tx, owner, pipeline, asset) if pipeline else ():
            # Changed in place: an event that waits for the row finds it again.
            Listeners(tx).add(dataset, template)
            listening.append((dataset, asset.name))
    Listeners(tx).keep(owner, TARGET, listening)
    Schedules(tx).keep(owner, TARGET, [a.name for a in assets if isinstance(a.trigger, Schedule)])
    Tasks(tx).move(owner, TARGET, version, [asset.name for asset in assets])


def appeared(tx: Transaction, owner: Owner, datasets: Sequence[Dataset]) -> None:
    """Let pipelines follow datasets that have their first version, another name or other readers:
    this pipeline, and others whose active version reads them."""
    if not datasets:
        return
    active = Pipelines(tx).active(owner)
    readers = Pipelines(tx).readers(owner, {dataset.name for dataset in datasets})
    for reader, version in [*([(owner, active[0])] if active else []), *readers]:
        follow(tx, reader, version)


def invalidated(
    tx: Transaction, owner: Owner, targets: Iterable[tuple[str, str | None]], cause: UUID
) -> int:
    """Make a task for each invalidated target whose asset listens; return their number."""
    listed = list(dict.fromkeys(targets))
    listening = Listeners(tx).of_consumers(owner, TARGET, [asset for asset, _ in listed])
    tasks = []
    for asset, partition in listed:
        if asset in listening:
            template, held_by = listening[asset]
            task = NewTask(
                template=template,
                trigger=TriggerKind.INVALIDATION,
                dedupe_key=invalidation_key(cause, partition),
                scope=Scope(partition_key=partition),
                held_by=held_by,
            )
            tasks.append(task)
    return len(Tasks(tx).add(tasks))


def check_pools(tx: Transaction, owner: Owner, assets: Iterable[Asset]) -> None:
    """Raise PoolMissing if an asset with a trigger names a pool that nobody made."""
    ensure_pools(tx, owner, [asset for asset in assets if asset.trigger != MANUAL])


def ensure_pools(tx: Transaction, owner: Owner, assets: Iterable[Asset]) -> None:
    """Raise PoolMissing if one of the assets names a pool that nobody made: its tasks would wait
    forever. The default pool is made."""
    wanted = {asset.pool: asset.name for asset in assets}
    if not wanted:
        return
    Pools(tx).ensure(owner, DEFAULT_POOL)
    known = Pools(tx).names(owner)
    for pool, asset in sorted(wanted.items()):
        if pool not in known:
            raise PoolMissing(asset, pool, nearest(pool, known))


def template_of(
    asset: Asset, owner: Owner, version: str | None, config: Mapping[str, Any]
) -> TaskTemplate:
    """Describe the tasks that make targets of an asset."""
    return TaskTemplate(
        org=owner.org,
        project=owner.project,
        asset=asset.name,
        kind=TARGET,
        pipeline_version=version,
        config=config,
        pool=asset.pool,
        priority=asset.priority,
        max_concurrency=asset.max_concurrency,
        retry=asset.retry or DEFAULT_RETRY,
    )


def _with_triggers(tx: Transaction, owner: Owner, version: str) -> Pipeline | None:
    """Read the plan of a version; None if it has no triggers."""
    found = Pipelines(tx).find(owner, version)
    if found is None:
        return None
    assets = json.loads(found.plan).get("assets", {})
    if not any("trigger" in asset for asset in assets.values()):
        return None
    return Pipeline.of(form.read_text(found.plan))


def _datasets(tx: Transaction, owner: Owner, pipeline: Pipeline, asset: Asset) -> Iterator[UUID]:
    """Yield the datasets whose events make tasks of the asset, as far as they are there."""
    datasets, split = Datasets(tx), asset.partitioned_by
    for name in followed(asset, pipeline.assets, pipeline.sources, pipeline.tables):
        if name in pipeline.shared:
            found = datasets.find(pipeline.shared[name].dataset, owner.org)
            if found is None or found.owner == owner or not readable(found, owner):
                continue
            if split is not None and found.partition_column != split.column:
                continue  # its events do not say which partition to make
        else:
            kind = Kind.TABLE if name in pipeline.tables else Kind.ASSET
            found = datasets.of_producer(owner, name, kind)
        if found is not None:
            yield found.id
