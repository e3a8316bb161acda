"""A target as the end of its run needs it: without files, and of its ledger the sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tallyman.control.openlineage.datasets import ToldDataset
from tallyman.control.openlineage.events import ToldAsset
from tallyman.control.openlineage.totals import Identity, Totals


def small(told: ToldAsset) -> ToldAsset:
    return replace(
        told,
        inputs=tuple(_without_files(one) for one in told.inputs),
        output=told.output and _without_files(told.output),
        registered={name: _without_files(one) for name, one in told.registered.items()},
        ledger=told.ledger.totals() if told.ledger else None,
        rejections=_by_type(told.rejections),
        reads=(),
    )


def _without_files(one: ToldDataset) -> ToldDataset:
    return one if one.extent is None else replace(one, extent=None)


def _by_type(rejections: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple({name: row[name] for name in ("error_type", "count")} for row in rejections)


# ---- together -----------------------------------------------------------------------------------


def made_by(told: ToldAsset) -> list[ToldDataset]:
    own = [] if told.output is None else [told.output]
    return [*own, *told.registered.values()]


def with_totals(assets: Sequence[ToldAsset], reads: Totals, makes: Totals) -> list[ToldAsset]:
    """The first that names a dataset has what all of them read or made of it."""
    read: set[Identity] = set()
    made: set[Identity] = set()
    return [
        replace(
            told,
            inputs=[_with_total(one, reads, read) for one in told.inputs],
            output=told.output and _with_total(told.output, makes, made),
            registered={
                name: _with_total(one, makes, made) for name, one in told.registered.items()
            },
        )
        for told in assets
    ]


def _with_total(one: ToldDataset, totals: Totals, seen: set[Identity]) -> ToldDataset:
    if one.identity in seen:
        return one
    seen.add(one.identity)
    return replace(one, extent=totals.of(one.identity))
