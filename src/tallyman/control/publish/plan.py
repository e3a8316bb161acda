"""Make a change plan: compare the datasets with the pipeline's current code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

from tallyman.control.pipeline.definitions import Definitions
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.pipeline.target import same_partitions
from tallyman.domain.version.change_plan import Action, ChangePlan, Estimate, Planned
from tallyman.domain.version.dataset import Dataset, Fragment, Kind
from tallyman.errors import UsageError
from tallyman.registry.database import Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.pipelines import Pipelines
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


def plan(definitions: Definitions) -> ChangePlan:
    """Make the plan. Nothing is changed."""
    database, project = definitions.database, definitions.settings.name
    listed = database.durably(lambda tx: Datasets(tx).list(project))
    every = database.durably(lambda tx: _there(tx, listed))
    there = {found.dataset.producer: found for found in every if found.dataset.kind is Kind.ASSET}
    active = database.durably(lambda tx: Pipelines(tx).active(project))
    planned: dict[str, Planned] = {}
    for name in definitions.pipeline.order():
        planned[name] = _asset(definitions, definitions.pipeline.assets[name], there, planned)
    costs = database.durably(lambda tx: Materializations(tx).costs(project))
    planned = {name: _estimated(one, costs.get(name)) for name, one in planned.items()}
    known = {(Kind.ASSET, name) for name in planned}
    known |= {(Kind.TABLE, name) for name in definitions.pipeline.tables}
    # A dataset that an output step registered is kept or removed with its asset.
    gone = [
        _removed(f)
        for f in every
        if (f.dataset.kind, f.dataset.producer.partition("/")[0]) not in known
    ]
    return ChangePlan(
        id=str(uuid4()),
        pipeline_from=active[0] if active else None,
        pipeline_to=definitions.version(),
        planned=(*planned.values(), *gone),
        expected={str(dataset.id): dataset.ordinal for dataset in listed if dataset.ordinal},
    )


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
        found.append(_There(dataset, rows, partitions, _made_by(tx, fragments), newest))
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
    action, reason = _decision(definitions, asset, found, planned)
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
    found: _There | None,
    planned: Mapping[str, Planned],
) -> tuple[Action, str]:
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
    return Action.REUSE, "nothing has changed"


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
    if existing := _existing(there.get(asset.name)):
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
    return Planned(
        name=dataset.producer,
        dataset=dataset.name,
        action=Action.REMOVE,
        reason=f"the pipeline has no {dataset.kind.value} {dataset.producer!r} anymore; "
        "its versions stay",
        version=dataset.ordinal,
        rows=found.rows,
        dataset_id=str(dataset.id),
    )
