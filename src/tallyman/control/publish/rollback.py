"""Roll back: make a new commit whose versions have the content of older ones. Data files are not
rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from tallyman.control.publish.commit import publish
from tallyman.domain.version.commit import Change, Commit, Operation, Publication
from tallyman.domain.version.dataset import Dataset, Fragment, Kind, asset_of
from tallyman.domain.version.mutation import referrers
from tallyman.domain.version.owner import Owner
from tallyman.domain.version.table import Table
from tallyman.engine.table.state import Held, TableState
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import NothingToRead, UsageError
from tallyman.registry.database import Transaction
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.version.commits import Commits
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments


def to_commit(
    tx: Transaction, warehouse: Warehouse, asked: Publication, commit: str
) -> Commit | None:
    """Restore all datasets of the project, and its pipeline, to their state after the commit."""
    target = Commits(tx).get(commit, asked.owner)
    then = Commits(tx).as_of(target.seq, asked.owner)
    datasets = Datasets(tx).lock(d.id for d in Datasets(tx).list(asked.owner))
    changes = [_back(tx, d, then.get(d.id)) for d in datasets.values() if d.ordinal]
    active = Pipelines(tx).active(asked.owner)
    pipeline = Commits(tx).pipeline_at(target.seq, asked.owner)
    return publish(
        tx,
        warehouse,
        replace(
            asked,
            changes=tuple(change for change in changes if change is not None),
            pipeline_version=pipeline,
            details={"to": str(target.id), "from": active[0] if active else None},
        ),
    )


def to_version(
    tx: Transaction,
    warehouse: Warehouse,
    asked: Publication,
    name: str,
    ordinal: int,
    tables: Mapping[str, Table],
) -> Commit | None:
    """Restore one dataset, and with it the others that its asset makes: their rows are one result.
    The pipeline stays, because the other datasets do. References between tables must still hold.
    """
    dataset = Datasets(tx).own(name, asked.owner)
    bound, outputs = _bound(tx, dataset, tables), _outputs(tx, dataset)
    # Lock all in one call: a mutation that needs some of the tables waits, and no deadlock can
    # occur.
    locked = Datasets(tx).lock([dataset.id, *bound, *outputs])
    dataset = locked.pop(dataset.id)
    if ordinal == dataset.ordinal:
        raise UsageError(f"{dataset.name} is already at v{ordinal}")
    change = _back(tx, dataset, ordinal)
    then = Commits(tx).while_current(dataset, ordinal) if outputs else {}
    others = [_back(tx, locked[one], then.get(one)) for one in outputs]
    reads: dict[UUID, int] = {}
    if dataset.kind is Kind.TABLE and change is not None:
        _check_references(tx, warehouse, tables, (dataset, change), locked.values())
        reads = {other.id: other.ordinal for other in locked.values()}
    return publish(
        tx,
        warehouse,
        replace(
            asked,
            changes=tuple(one for one in (change, *others) if one is not None),
            reads=reads,
            details={"dataset": dataset.name, "to": ordinal},
        ),
    )


def _back(tx: Transaction, dataset: Dataset, ordinal: int | None) -> Change | None:
    """Build the change back to a version; a removal if the dataset did not exist then."""
    if ordinal == dataset.ordinal:
        return None
    if ordinal is None:
        return _removal(dataset)
    found = Commits(tx).version(dataset, ordinal)
    if found.purged_at is not None:
        raise NothingToRead(dataset.name, ordinal, purged=True)
    if found.metadata_location is None:
        return _removal(dataset)
    return Change(
        dataset_id=dataset.id,
        operation=Operation.RESTORE,
        adds=tuple(Fragments(tx).at(dataset.id, ordinal).values()),
        whole=True,
        expected=dataset.ordinal,
        restores=found.restores or ordinal,
    )


def _outputs(tx: Transaction, dataset: Dataset) -> list[UUID]:
    """List the other datasets that the same asset makes: its own, those that it divides its rows
    into or registers, and its rejections."""
    if dataset.kind is Kind.TABLE:
        return []
    asset = asset_of(dataset.producer)
    return [
        other.id
        for other in Datasets(tx).list(dataset.owner)
        if other.kind is Kind.ASSET and asset_of(other.producer) == asset and other.ordinal
        if other.id != dataset.id
    ]


def _bound(tx: Transaction, dataset: Dataset, tables: Mapping[str, Table]) -> list[UUID]:
    """List the tables that this one references, and those that reference it."""
    own = tables.get(dataset.producer) if dataset.kind is Kind.TABLE else None
    if own is None:
        return []
    names = {reference.table for reference in own.references} | set(referrers(tables, own.name))
    return [d.id for d in Datasets(tx).of_producers(dataset.owner, names - {own.name}, Kind.TABLE)]


def _check_references(
    tx: Transaction,
    warehouse: Warehouse,
    tables: Mapping[str, Table],
    going: tuple[Dataset, Change],
    others: Iterable[Dataset],
) -> None:
    """Raise MutationRefused if a row of one of these tables refers to a missing key of another, or
    too few or too many do."""
    dataset, change = going
    if dataset.producer not in tables:
        return
    held = {dataset.producer: _held(warehouse, tables[dataset.producer], change.adds)}
    for other in others:
        fragments = Fragments(tx).at(other.id, other.ordinal).values()
        held[other.producer] = _held(warehouse, tables[other.producer], fragments)
    with TableState(held, whole=()) as state:
        for name, one in held.items():
            if known := {r.column for r in one.table.references if r.table in held}:
                state.check_references(name, state.name(name), known)
        state.changes[dataset.producer].updated = 1  # count what refers to it, and it to others
        state.check_counts()


def _held(warehouse: Warehouse, table: Table, fragments: Iterable[Fragment]) -> Held:
    listed = list(fragments)
    warehouse.check(table.name, listed)
    return Held(table, {f.id: tuple(warehouse.paths([f])) for f in listed})


def _removal(dataset: Dataset) -> Change:
    return Change(
        dataset_id=dataset.id,
        operation=Operation.REMOVE,
        whole=True,
        expected=dataset.ordinal,
    )


def asking(key: UUID, actor: str, owner: Owner, message: str | None) -> Publication:
    return Publication(
        key=key, kind="rollback", actor=actor, owner=owner, changes=(), message=message
    )
