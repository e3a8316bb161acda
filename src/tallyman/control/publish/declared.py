"""The datasets that an asset declares: its own, and those it publishes next to it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.working_step import Output
from tallyman.domain.pipeline.pipeline import Asset
from tallyman.domain.version.dataset import Dataset, Kind, registered_by
from tallyman.domain.version.owner import Owner
from tallyman.engine.readback.rejected_columns import KEY, PARTITION


def own_dataset(asset: Asset, owner: Owner) -> Dataset:
    split = asset.partitioned_by
    return Dataset(
        id=UUID(int=0),
        name=asset.dataset,
        kind=Kind.ASSET,
        owner=owner,
        producer=asset.name,
        key_columns=asset.unique_key or asset.key,
        partition_column=split.column if split else None,
        published=asset.publish is not False,
    )


def registered_dataset(asset: Asset, owner: Owner, name: str) -> Dataset:
    """Describe a dataset with rows of the asset: all of some output, or what an output step wrote,
    of which no key is known."""
    own = own_dataset(asset, owner)
    key = own.key_columns if name in dict(asset.split) else ()
    producer = registered_by(asset.name, name)
    return replace(own, name=name, producer=producer, key_columns=key, published=True)


def rejections_dataset(asset: Asset, owner: Owner) -> Dataset | None:
    """Describe the dataset of the asset's rejections; None if they are not published."""
    if asset.publish_rejections is None:
        return None
    found = registered_dataset(asset, owner, asset.publish_rejections)
    return replace(
        found, key_columns=KEY, partition_column=PARTITION if asset.partitioned_by else None
    )


def datasets_of(asset: Asset, owner: Owner) -> list[Dataset]:
    """List the datasets to register before the asset is made, so that a name that is taken is
    refused before any work."""
    outputs = [registered_dataset(asset, owner, name) for name, _ in asset.split]
    rejections = rejections_dataset(asset, owner)
    return [own_dataset(asset, owner), *outputs, *([rejections] if rejections else [])]


def datasets_made_with(asset: Asset, plan: Frame, owner: Owner) -> list[Dataset]:
    """List the datasets that one result of the asset fills: those it declares, and those that
    output steps of its plan register."""
    found = {one.name: one for one in datasets_of(asset, owner)}
    for step in plan.steps():
        if isinstance(step, Output) and step.register_as:
            new = registered_dataset(asset, owner, step.register_as)
            found.setdefault(step.register_as, new)
    return list(found.values())
