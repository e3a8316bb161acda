"""The inputs that an asset follows: those whose events make its tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from tallyman.domain.pipeline.trigger import EVENT
from tallyman.errors import Problem

if TYPE_CHECKING:
    from tallyman.domain.pipeline.pipeline import Asset


def followed(
    reader: Asset, assets: Mapping[str, Asset], sources: Collection[str], tables: Collection[str]
) -> list[str]:
    """List the inputs with events that say what to make. Sources have none. A partitioned asset
    follows what is partitioned in the same way: other events do not say which partition to make.
    Of datasets of other pipelines that is known once they are there."""
    if reader.trigger != EVENT:
        return []
    found = []
    for name in dict.fromkeys(reader.inputs):
        if name in sources or (name in tables and reader.partitioned_by is not None):
            continue
        whole = name not in assets or reader.partitioned_by is None
        if whole or same_partitions(reader, assets[name]):
            found.append(name)
    return found


def same_partitions(reader: Asset, other: Asset) -> bool:
    mine, theirs = reader.partitioned_by, other.partitioned_by
    if mine is None or theirs is None:
        return False
    return (mine.column, mine.kind) == (theirs.column, theirs.kind)


def trigger_problems(
    assets: Mapping[str, Asset], sources: Collection[str], tables: Collection[str]
) -> Iterator[Problem]:
    """Report assets that wait for events which never come."""
    for asset in assets.values():
        if asset.trigger != EVENT or followed(asset, assets, sources, tables):
            continue
        split = asset.partitioned_by
        if split is None:
            reason = "it reads only sources, which have no events: use tm.schedule(…) or 'manual'"
        else:
            reason = (
                f"none of its inputs is partitioned by {split.column!r} in the same way, so no "
                "event says which partition to make"
            )
        yield Problem(f"asset {asset.name}", f"trigger 'event': {reason}")
