"""Condensed targets: file lists dropped and ledger totals kept, so that a run with 10,000
partitions fits in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tallyman.control.openlineage.datasets import LineageDataset
from tallyman.control.openlineage.events import LineageAsset
from tallyman.control.openlineage.totals import Identity, Totals


def small(described: LineageAsset) -> LineageAsset:
    return replace(
        described,
        result=replace(described.result, column_metrics={}),
        inputs=tuple(_without_files(one) for one in described.inputs),
        output=described.output and _without_files(described.output),
        registered={name: _without_files(one) for name, one in described.registered.items()},
        ledger=described.ledger.totals() if described.ledger else None,
        rejections=_by_type(described.rejections),
        reads=(),
    )


def _without_files(one: LineageDataset) -> LineageDataset:
    return replace(one, extent=None, columns={})


def _by_type(rejections: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple({name: row[name] for name in ("error_type", "count")} for row in rejections)


# ---- totals -------------------------------------------------------------------------------------


def with_totals(assets: Sequence[LineageAsset], reads: Totals, makes: Totals) -> list[LineageAsset]:
    """Put the total of each dataset into the first target that names it."""
    read: set[Identity] = set()
    made: set[Identity] = set()
    return [
        replace(
            described,
            inputs=[_with_total(one, reads, read) for one in described.inputs],
            output=described.output and _with_total(described.output, makes, made),
            registered={
                name: _with_total(one, makes, made) for name, one in described.registered.items()
            },
        )
        for described in assets
    ]


def _with_total(one: LineageDataset, totals: Totals, seen: set[Identity]) -> LineageDataset:
    if one.identity in seen:
        return one
    seen.add(one.identity)
    return replace(one, extent=totals.of(one.identity))
