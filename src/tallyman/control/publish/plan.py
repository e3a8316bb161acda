"""Make a change plan: compare the datasets with the pipeline's current code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.pipeline.shared import find_shared, read_by
from tallyman.domain.definition.plan import registered_names
from tallyman.domain.pipeline.follows import same_partitions
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.version.change_plan import Action, ChangePlan, Estimate, Planned
from tallyman.domain.version.dataset import Dataset, Fragment, Kind, registered_by
from tallyman.errors import UsageError
from tallyman.registry.database import Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.run.reads import Reads
from tallyman.registry.version.commits import Commits
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments


@dataclass(frozen=True, slots=True)
class _There:
    """The current state of a dataset."""

    dataset: Dataset
    rows: int
    partitions: tuple[str | None, ...]
    definitions: tuple[frozenset[str], ...]
    """For each fragment, the definitions that make its rows."""
    newest: tuple[frozenset[str], ...]
    """The same for the newest fragments: rows that were appended earlier stay as they are."""
    results: tuple[UUID, ...] = ()
    """The results that its fragments are."""
    partitioned_by: frozenset[str | None] = frozenset()
    """The column that its fragments were partitioned by when they were made."""


def plan(definitions: Definitions) -> ChangePlan:
    """Make the plan. Nothing is changed."""
    database, owner = definitions.database, definitions.settings.owner
    listed = database.durably(lambda tx: Datasets(tx).list(owner))
    every = database.durably(lambda tx: _there(tx, listed))
    database.durably(lambda tx: _check_shared(tx, definitions))
    there = {found.dataset.producer: found for found in every if found.dataset.kind is Kind.ASSET}
    active = database.durably(lambda tx: Pipelines(tx).active(owner))
    planned: dict[str, Planned] = {}
    for name in definitions.pipeline.order():
        planned[name] = _asset(definitions, definitions.pipeline.assets[name], there, planned)
    costs = database.durably(lambda tx: Materializations(tx).costs(owner))
    planned = {name: _estimated(one, costs.get(name)) for name, one in planned.items()}
    known = {(Kind.ASSET, name) for name in (*planned, *_registered(definitions))}
    known |= {(Kind.TABLE, name) for name in definitions.pipeline.tables}
    gone = [_removed(f) for f in every if (f.dataset.kind, f.dataset.producer) not in known]
    return ChangePlan(
        id=str(uuid4()),
        pipeline_from=active[0] if active else None,
        pipeline_to=definitions.version(),
        planned=(*planned.values(), *gone),
        expected={str(dataset.id): dataset.ordinal for dataset in listed if dataset.ordinal},
    )


def _check_shared(tx: Transaction, definitions: Definitions) -> None:
    """Refuse a plan that reads datasets of other pipelines that cannot be read."""
    for shared in read_by(definitions.pipeline, definitions.pipeline.assets):
        find_shared(tx, definitions.settings.owner, shared)


def _registered(definitions: Definitions) -> Iterator[str]:
    """Yield the producers of datasets that assets publish next to their own."""
    for asset in definitions.pipeline.assets.values():
        names = [*asset.registers, *registered_names(definitions.plan(asset))]
        yield from (registered_by(asset.name, name) for name in names)


def _estimated(one: Planned, cost: Estimate | None) -> Planned:
    if cost is None or not one.builds:
        return one
    targets = 1 if one.partitions is None else len(one.partitions)
    return replace(one, estimate=cost.times(targets))


def _there(tx: Transaction, listed: Iterable[Dataset]) -> list[_There]:
    """List the datasets that can be read."""
    found = []
    for dataset in listed:
        if dataset.current_version is None:
            continue
        fragments = Fragments(tx).at(dataset.id, dataset.ordinal).values()
        last = max((f.since or 0 for f in fragments), default=0)
        rows = Commits(tx).version(dataset).rows
        partitions = tuple(dict.fromkeys(f.partition for f in fragments))
        newest = _made_by(tx, [f for f in fragments if f.since == last])
        made = tuple(f.materialization_id for f in fragments if f.materialization_id)
        by = frozenset(fragment.schema.get("partitioned-by") for fragment in fragments)
        found.append(_There(dataset, rows, partitions, _made_by(tx, fragments), newest, made, by))
    return found


def _made_by(tx: Transaction, fragments: Iterable[Fragment]) -> tuple[frozenset[str], ...]:
    ids = [f.materialization_id for f in fragments if f.materialization_id]
    return tuple(Materializations(tx).definitions_of(ids))


def _asset(
    definitions: Definitions,
    asset: Asset,
    there: Mapping[str, _There],
    planned: Mapping[str, Planned],
) -> Planned:
    found = there.get(asset.name)
    action, reason = _decision(definitions, asset, there, planned)
    partitions = _partitions(definitions.pipeline.assets, asset, there, planned)
    dataset = found.dataset if found else None
    renamed = isinstance(asset.publish, str) and dataset and dataset.name != asset.publish
    shown = asset.publish is not False
    return Planned(
        name=asset.name,
        dataset=dataset.name if dataset else asset.dataset,
        action=action,
        reason=reason,
        version=dataset.ordinal if dataset else None,
        rows=found.rows if found else None,
        partitions=partitions if action is not Action.REUSE or asset.partitioned_by is None else (),
        dataset_id=str(dataset.id) if dataset else None,
        rename_to=asset.dataset if renamed else None,
        publish=shown if dataset and dataset.published != shown else None,
    )


def _decision(
    definitions: Definitions,
    asset: Asset,
    there: Mapping[str, _There],
    planned: Mapping[str, Planned],
) -> tuple[Action, str]:
    found = there.get(asset.name)
    if found is None:
        return Action.CREATE, "it has no readable version yet"
    made_by = found.newest if asset.update_strategy == "append" else found.definitions
    if not made_by or not all(definitions.hash(asset.name) in makers for makers in made_by):
        return Action.REBUILD, "its definition has changed since its rows were made"
    if (asset.partitioned_by is None) != (found.partitions == (None,)):
        return Action.REBUILD, "its partitioning has changed"
    built = [name for name in asset.inputs if name in planned and planned[name].builds]
    if built:
        return Action.REBUILD, f"it reads {', '.join(built)}"
    moved = definitions.database.durably(lambda tx: _moved(tx, definitions, asset, found))
    if moved:
        return Action.REBUILD, ", ".join(moved)
    for name in asset.registers:
        beside = there.get(registered_by(asset.name, name))
        if beside is None or set(beside.partitions) != set(found.partitions):
            return Action.PUBLISH, f"{name} is published too; no rows are made again"
    return Action.REUSE, "nothing has changed"


def _moved(tx: Transaction, definitions: Definitions, asset: Asset, found: _There) -> list[str]:
    """List the datasets of other pipelines that have other rows than those it was made from."""
    moved = []
    for shared in read_by(definitions.pipeline, [asset.name]):
        dataset = find_shared(tx, definitions.settings.owner, shared)
        now = _digests(tx, dataset, dataset.ordinal)
        then = Reads(tx).pinned(found.results, dataset.id)
        before = [one for one in then if _digests(tx, dataset, one) != now]
        if before:
            moved.append(f"{dataset.name} v{before[0]} → v{dataset.ordinal}")
    return moved


def _digests(tx: Transaction, dataset: Dataset, ordinal: int) -> list[tuple[str, str]]:
    fragments = Fragments(tx).at(dataset.id, ordinal).values()
    return sorted((f.partition or "", f.digest) for f in fragments)


def _partitions(
    assets: Mapping[str, Asset],
    asset: Asset,
    there: Mapping[str, _There],
    planned: Mapping[str, Planned],
) -> tuple[str, ...] | None:
    """Return the existing partitions; for a new asset those of its inputs, or all if the list is
    finite."""
    declared = asset.partitioned_by
    if declared is None:
        return None
    found = there.get(asset.name)
    same = found is not None and found.partitioned_by == {declared.column}
    if same and (existing := _existing(found)):
        return existing
    upstream = [n for n in asset.inputs if n in assets and same_partitions(asset, assets[n])]
    read = (planned[name].partitions or _existing(there.get(name)) for name in upstream)
    if keys := tuple(dict.fromkeys(key for keys in read for key in keys)):
        return keys
    try:
        return tuple(declared.parse(key) for key in declared.keys(None, None))
    except UsageError:
        return ()  # the list has no end: `tallyman backfill` needs --from and --to


def _existing(found: _There | None) -> tuple[str, ...]:
    return tuple(p for p in found.partitions if p is not None) if found else ()


def _removed(found: _There) -> Planned:
    dataset = found.dataset
    asset, registered, _ = dataset.producer.partition("/")
    reason = f"the pipeline has no {dataset.kind.value} {asset!r} anymore"
    if registered:
        reason = f"no asset {asset!r} publishes it anymore"
    return Planned(
        name=dataset.producer,
        dataset=dataset.name,
        action=Action.REMOVE,
        reason=f"{reason}; its versions stay",
        version=dataset.ordinal,
        rows=found.rows,
        dataset_id=str(dataset.id),
    )
