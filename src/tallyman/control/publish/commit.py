"""Publication: one transaction in which everything becomes current, or nothing does.

The rows of the datasets are locked in one order, compared, and moved. The data files of a version
are durable before; its metadata is written while the rows are locked. A crash before the end of the
transaction leaves files that nothing points to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from tallyman import faults
from tallyman.control.dispatch import emit, follow
from tallyman.control.publish.outside import put_right
from tallyman.domain.task.event import Event, Producer, Scope
from tallyman.domain.version.commit import Change, Commit, Operation, Publication
from tallyman.domain.version.dataset import DataFile, Dataset, Fragment, Kind, Version
from tallyman.domain.version.owner import Owner
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import (
    FragmentGone,
    PipelineRolledBack,
    PlanOutdated,
    SchemaChanged,
    SingleProducer,
    VersionConflict,
)
from tallyman.faults import Point
from tallyman.on_demand import OnDemand
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.run.invalidations import Invalidations
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.version.commits import Commits
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments
from tallyman.registry.version.outside_entries import OutsideEntries

if TYPE_CHECKING:
    from tallyman.engine.warehouse import iceberg
else:
    # PyIceberg takes most of a second, and most commands publish nothing.
    iceberg = OnDemand("tallyman.engine.warehouse.iceberg")

PIPELINE_MOVED = "another version of the pipeline was activated since"
Described = tuple[str | None, tuple[DataFile, ...]]
"""The location of a version's metadata, and its metadata files."""
REASONS = {Operation.RESTORE: "restored", Operation.REMOVE: "removed"}


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """The effect of a change on the current version, if it has any."""

    dataset: Dataset
    change: Change
    version: UUID
    removed: Mapping[UUID, Fragment]
    added: Mapping[UUID, Fragment]
    all: Sequence[Fragment]

    @property
    def ordinal(self) -> int:
        return self.dataset.ordinal + 1


def publish(tx: Transaction, warehouse: Warehouse, asked: Publication) -> Commit | None:
    """Publish and return the commit; None if nothing changes. Safe to repeat: the commit has a
    key."""
    wanted = {change.dataset_id for change in asked.changes} | set(asked.reads)
    locked = Datasets(tx).lock(wanted)
    done = Commits(tx).by_key(asked.key)
    if done is not None:
        return done
    put_right(tx, asked.owner, [change.dataset_id for change in asked.changes], asked.actor)
    for dataset_id, ordinal in asked.reads.items():
        _compare(locked[dataset_id], ordinal)
    planned = []
    for change in sorted(asked.changes, key=lambda c: c.dataset_id):
        _check_producer(locked[change.dataset_id], asked.owner)
        found = _work_out(tx, warehouse, locked[change.dataset_id], change)
        if asked.pins is not None:
            Invalidations(tx).process(change.dataset_id, change.scopes, asked.pins)
        if found is not None:
            planned.append(found)
    if not planned and not _moves_pipeline(tx, _with_pipeline(tx, asked)):
        return None
    described = {p.version: _describe(tx, warehouse, p) for p in planned}
    faults.reach(Point.METADATA_WRITTEN)
    return _commit(tx, asked, planned, described)


def _compare(dataset: Dataset, expected: int) -> None:
    if dataset.ordinal != expected:
        raise VersionConflict(dataset.name, expected, dataset.ordinal)


def _check_producer(dataset: Dataset, owner: Owner) -> None:
    """Check the producer: before the first version, another pipeline may have taken the dataset
    over."""
    if dataset.owner != owner:
        raise SingleProducer(dataset.name, dataset.producer, dataset.owner.project)


# ---- the effect of a change ----------------------------------------------------------------


def _work_out(
    tx: Transaction, warehouse: Warehouse, dataset: Dataset, change: Change
) -> PlannedCommit | None:
    if change.expected is not None:
        _compare(dataset, change.expected)
    live = Fragments(tx).at(dataset.id, dataset.ordinal)
    removed = change.removed(live)
    adds = {fragment.id: fragment for fragment in change.adds}
    same = _already_there(warehouse, change, live, adds)
    removed -= {f.id for f in live.values() if f.partition in same}
    wanted = [f for f in adds.values() if f.partition not in same]
    if change.operation is Operation.APPEND:
        # It left out rows because they were there.
        _check_scopes(tx, dataset, change, change.scopes, may_grow=True)
        # Appending no rows makes no version, except the first version of a dataset.
        wanted = [fragment for fragment in wanted if fragment.rows or not live]
    added = {f.id: f for f in wanted if f.id not in live}
    removed -= {fragment.id for fragment in wanted}
    gone_already = change.operation is Operation.REMOVE and dataset.current_version is None
    if gone_already or not (removed or added or change.operation is Operation.REMOVE):
        return None
    touched = {f.partition for f in added.values()} | {live[i].partition for i in removed}
    _check_scopes(tx, dataset, change, touched)
    _check_there(tx, dataset, added)
    after = [f for f in live.values() if f.id not in removed] + list(added.values())
    _check_schemas(dataset, after)
    return PlannedCommit(dataset, change, uuid4(), {i: live[i] for i in removed}, added, after)


def _already_there(
    warehouse: Warehouse,
    change: Change,
    live: Mapping[UUID, Fragment],
    adds: Mapping[UUID, Fragment],
) -> set[str | None]:
    """Find scopes that already hold the same content, so that replacing them would change
    nothing."""
    if change.operation is Operation.APPEND or change.even_if_equal:
        return set()
    return {
        scope
        for scope in change.scopes
        if (there := [f for f in live.values() if f.partition == scope])
        and all(warehouse.has(f) and not f.invalidated for f in there)
        and _digests(live, scope) == _digests(adds, scope)
    }


def _digests(fragments: Mapping[UUID, Fragment], scope: str | None) -> list[tuple[str, str]]:
    listed = [f for f in fragments.values() if f.partition == scope]
    return sorted((fragment.digest, str(fragment.schema)) for fragment in listed)


def _check_scopes(
    tx: Transaction,
    dataset: Dataset,
    change: Change,
    scopes: Set[str | None],
    *,
    may_grow: bool = False,
) -> None:
    """Check that these partitions are unchanged since the work began, or have at least lost no rows
    if they `may_grow`; other partitions may have moved."""
    if change.expected is not None or dataset.ordinal == change.read_at:
        return
    then = Fragments(tx).scopes_at(dataset.id, change.read_at)
    now = Fragments(tx).scopes_at(dataset.id, dataset.ordinal)
    for scope in scopes:
        before, after = then.get(scope, set()), now.get(scope, set())
        if before - after if may_grow else before != after:
            raise VersionConflict(dataset.name, change.read_at, dataset.ordinal)


def _check_there(tx: Transaction, dataset: Dataset, added: Mapping[UUID, Fragment]) -> None:
    if set(Fragments(tx).get(added)) != set(added):
        raise FragmentGone(dataset.name)


def _check_schemas(dataset: Dataset, fragments: Sequence[Fragment]) -> None:
    columns = {_columns(fragment): None for fragment in fragments}
    if len(columns) > 1:
        before, *_, after = columns
        raise SchemaChanged(dataset.name, before, after)


def _columns(fragment: Fragment) -> str:
    listed = ", ".join(f"{f['name']} {f['type']}" for f in fragment.schema["fields"])
    by = fragment.schema.get("partitioned-by")
    return f"{listed}, partitioned by {by}" if by else listed


def _moves_pipeline(tx: Transaction, asked: Publication) -> bool:
    if asked.pipeline_version is None:
        return False
    active = Pipelines(tx).active(asked.owner)
    return active is None or active[0] != asked.pipeline_version


# ---- the commit ----------------------------------------------------------------------------


def _describe(tx: Transaction, warehouse: Warehouse, planned: PlannedCommit) -> Described:
    """Write the version's Iceberg metadata and return its location. A restored version reuses the
    old one."""
    dataset, change = planned.dataset, planned.change
    if change.operation is Operation.REMOVE:
        return None, ()
    if change.restores is not None:
        before = Commits(tx).version(dataset, change.restores)
        return before.metadata_location, before.metadata_files
    folder = warehouse.dataset(dataset.id)
    location = iceberg.write_version(folder, planned.version, planned.ordinal, planned.all)
    return location, warehouse.described_metadata(dataset.id, planned.version)


def _commit(
    tx: Transaction,
    asked: Publication,
    planned: Sequence[PlannedCommit],
    described: Mapping[UUID, Described],
) -> Commit:
    commits, commit = Commits(tx), uuid4()
    locations = {version: location for version, (location, _) in described.items()}
    parent = commits.lock_head(asked.owner)
    asked = _with_pipeline(tx, asked)
    commits.add(commit, parent, asked)
    commits.add_versions([_version(p, commit, described[p.version]) for p in planned])
    for one in planned:
        dataset, ordinal = one.dataset, one.ordinal
        Fragments(tx).leave(dataset.id, one.removed, ordinal)
        Fragments(tx).join(dataset.id, one.added, ordinal)
        current = one.version if locations[one.version] else None
        Datasets(tx).move(dataset.id, ordinal=ordinal, version=current)
        commits.check_closed(dataset, ordinal, one.change)
    shown = {p.dataset.name: locations[p.version] for p in planned if p.dataset.published}
    OutsideEntries(tx, asked.owner.org).put(shown)
    for one in planned:
        _invalidate(tx, one, commit)
    _activate(tx, asked, commit)
    follow.appeared(tx, asked.owner, [p.dataset for p in planned if p.ordinal == 1])
    events = [event for one in planned for event in _events(one)]
    producer = Producer(id=asked.task or commit, owner=asked.owner, attempt=asked.attempt)
    emit.record(tx, producer, events)
    moved = {p.dataset.name: p.ordinal for p in planned}
    details = {"commit": str(commit), "moved": moved}
    Audit(tx, asked.owner).add(
        f"commit.{asked.kind}", asked.actor, str(commit), run=asked.run_id, details=details
    )
    found = commits.by_key(asked.key)
    assert found is not None
    return found


def _activate(tx: Transaction, asked: Publication, commit: UUID) -> None:
    """Make the pipeline version the active one, with its listeners and schedules."""
    version = asked.pipeline_version
    if version is None:
        return
    before = Pipelines(tx).active(asked.owner)
    Pipelines(tx).activate(asked.owner, version, commit)
    if before is None or before[0] != version:
        follow.follow(tx, asked.owner, version)


def _events(planned: PlannedCommit) -> Iterator[Event]:
    """Yield one event for each scope with new content. If a partition is gone, the dataset as a
    whole has changed; a dataset that is gone has no content."""
    dataset, version = planned.dataset.id, planned.version
    if planned.change.operation is Operation.REMOVE:
        return
    there = {fragment.partition for fragment in planned.all}
    touched = {f.partition for f in (*planned.removed.values(), *planned.added.values())}
    # A table that lost its last rows still is the table.
    for partition in sorted(touched & (there | {None}), key=str):
        yield Event(dataset=dataset, version=version, scope=Scope(partition_key=partition))
    if touched - there - {None}:
        yield Event(dataset=dataset, version=version)


def _with_pipeline(tx: Transaction, asked: Publication) -> Publication:
    """Refuse a plan made for another pipeline version, and keep an older run from moving the
    pipeline."""
    if asked.pipeline_version is None or asked.kind == "rollback":
        return asked
    active = Pipelines(tx).active(asked.owner)
    moved = (active[0] if active else None) != asked.pipeline_before
    if asked.kind == "apply":
        if moved:
            raise PlanOutdated(str(asked.details.get("plan")), PIPELINE_MOVED)
        return asked
    refuse_rolled_back(tx, asked.owner, asked.pipeline_version)
    return replace(asked, pipeline_version=None) if moved else asked


def refuse_rolled_back(tx: Transaction, owner: Owner, version: str) -> None:
    """Refuse a run whose pipeline version was rolled back: it would undo the rollback."""
    if found := Pipelines(tx).rolled_back(owner, version):
        at = f"{found['created_at']:%F %T}"
        raise PipelineRolledBack(str(found["id"]), found["actor"], at)


def _version(planned: PlannedCommit, commit: UUID, described: Described) -> Version:
    return Version(
        id=planned.version,
        dataset_id=planned.dataset.id,
        ordinal=planned.ordinal,
        operation=planned.change.operation.value,
        commit_id=commit,
        rows=sum(fragment.rows for fragment in planned.all),
        bytes=sum(fragment.bytes for fragment in planned.all),
        files=sum(len(fragment.files) for fragment in planned.all),
        restores=planned.change.restores,
        metadata_location=described[0],
        metadata_files=described[1],
    )


def _invalidate(tx: Transaction, planned: PlannedCommit, commit: UUID) -> None:
    """Mark as stale everything made from each partition that lost rows or got rows from a replay,
    unless this commit makes it again."""
    dataset, ordinal = planned.dataset, planned.ordinal
    invalidations = Invalidations(tx)
    reason = REASONS.get(planned.change.operation, "replaced")
    if dataset.kind is Kind.TABLE:  # a reader of a table reads all of it
        cause = invalidations.add(dataset.id, ordinal, None, reason=reason, commit=commit)
        invalidations.cascade(cause, commit, table=dataset)
        return
    changed = list(planned.removed.values())
    if planned.change.joins:
        joined = {f.partition for f in planned.added.values()}
        changed += [f for f in planned.all if f.partition in joined and f.id not in planned.added]
    for scope in sorted({f.partition for f in changed}, key=str):
        cause = invalidations.add(dataset.id, ordinal, scope, reason=reason, commit=commit)
        gone = [f.id for f in changed if f.partition == scope]
        invalidations.cascade(cause, commit, gone=gone)
