"""Publication of a run: everything it made or reused, in one commit, if all of it is good."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID, uuid5

from tallyman.control.publish.apply import publish_plan
from tallyman.control.publish.commit import publish
from tallyman.domain.history.materialization import (
    REJECTIONS_FRAGMENT,
    Materialization,
    RunRecord,
)
from tallyman.domain.task.task import Task
from tallyman.domain.version.commit import Change, Commit, Operation, Publication
from tallyman.domain.version.dataset import Fragment
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import FragmentGone, RejectionsTaken
from tallyman.registry.database import Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.resolutions import Resolutions
from tallyman.registry.version.fragments import Fragments


def publish_run(
    tx: Transaction,
    warehouse: Warehouse,
    run: RunRecord,
    actor: str,
    task: Task | None = None,
) -> Commit | None:
    """Publish the run; None if nothing of it is new or it may not be published. `task` is the one
    whose completion publishes it, if one does."""
    rows = to_publish(run, Materializations(tx).of_run(run.id))
    if not rows:
        return None
    fragments = Fragments(tx).get([row.fragment_id for row in rows if row.fragment_id])
    for row in rows:
        if row.fragment_id not in fragments:
            raise FragmentGone(row.target.asset)
    options, appended = run.params.options, run.params.append
    assets = {row.fragment_id: row.target.asset for row in rows}
    beside = {UUID(i): row.target.asset for row in rows for i in _registered(row)}
    rejections = {UUID(i) for row in rows if (i := row.metadata.get(REJECTIONS_FRAGMENT))}
    fragments |= Fragments(tx).get([*beside, *rejections])
    for gone in (beside.keys() | rejections) - fragments.keys():
        raise FragmentGone(beside.get(gone, "rejections"))
    assets |= beside
    joining = options.replay.adds if options.replay else ()
    reused = {
        fragment: row.reused_id
        for row in rows
        if row.fragment_id and row.reused_id
        for fragment in (row.fragment_id, *map(UUID, _registered(row)))
    }
    added = Fragments(tx).reused(reused, run.pins)
    prepared: dict[UUID, list[Fragment]] = {}
    for fragment in (fragments | added).values():
        prepared.setdefault(fragment.dataset_id, []).append(fragment)
    changes = []
    for dataset, adds in prepared.items():
        # Rejections are those of the newest result: they replace the earlier ones.
        asset = assets.get(adds[0].id)
        joins = asset in joining
        appends = asset in appended or joins
        change = _change(dataset, adds, appends=appends, read_at=run.pins.get(dataset, 0))
        changes.append(replace(change, even_if_equal=asset in options.force, joins=joins))
    asked = Publication(
        key=uuid5(run.id, "\n".join(sorted(str(f) for f in fragments))),
        kind="run",
        actor=actor,
        owner=run.owner,
        changes=tuple(changes),
        run_id=run.id,
        pipeline_version=run.params.pipeline_version,
        pipeline_before=run.params.pipeline_before,
        pins=run.pins,
        task=task.id if task is not None else None,
        attempt=task.attempt if task is not None else 0,
        details={"run": run.name},
    )
    if options.plan is None:
        commit = publish(tx, warehouse, asked)
        _resolve_rejections(tx, run)
        return commit
    return publish_plan(tx, warehouse, asked, options.plan)


def _resolve_rejections(tx: Transaction, run: RunRecord) -> None:
    """Close the rejections that this run replayed. The datasets are already locked."""
    options = run.params.options
    if options.replay is None:
        return
    found = Resolutions(tx).clashes(run.id, options.replay.taken_back)
    if found["count"]:
        first = str(options.replay_of)
        raise RejectionsTaken(first, found["count"], found["run"], found["actor"])
    Resolutions(tx).resolve(run.id)


def _registered(row: Materialization) -> list[str]:
    """List the fragments of further datasets that the result registered."""
    return list(row.metadata.get("registered", ())) if row.status.good else []


def to_publish(run: RunRecord, rows: list[Materialization]) -> list[Materialization]:
    """Return all results or none; a backfill that continues on errors publishes its complete
    partitions."""
    if all(row.status.good for row in rows):
        return rows
    if not run.params.options.good_partitions:
        return []
    bad = {row.target.partition for row in rows if not row.status.good}
    return [row for row in rows if row.target.partition and row.target.partition not in bad]


def _change(dataset: UUID, adds: Iterable[Fragment], *, appends: bool, read_at: int) -> Change:
    listed = tuple(adds)
    return Change(
        dataset_id=dataset,
        operation=Operation.APPEND if appends else Operation.REPLACE,
        adds=listed,
        scopes=frozenset(fragment.partition for fragment in listed),
        read_at=read_at,
    )
