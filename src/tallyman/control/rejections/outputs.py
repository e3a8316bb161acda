"""Check that all datasets of an asset have rows of the same results, before a replay adds to them.

A rollback of one of them alone leaves rows in the others that a replay would add again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from tallyman.control.rejections.find import Standing
from tallyman.domain.version.dataset import Dataset, Fragment, Kind
from tallyman.errors import OutputsApart
from tallyman.registry.database import Transaction
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments


def check_outputs(
    tx: Transaction,
    one: Standing,
    own: Dataset,
    made_with: Iterable[Dataset],
    here: Sequence[Fragment],
    ordinals: Mapping[UUID, int],
) -> None:
    """Compare what readers see in the other datasets with the results of the asset's own
    fragments."""
    producers = sorted({dataset.producer for dataset in made_with} - {own.producer})
    apart = []
    for other in Datasets(tx).of_producers(own.owner, producers, Kind.ASSET):
        ordinal = ordinals.get(other.id, 0)
        live = Fragments(tx).at(other.id, ordinal).values()
        there = Counter(f.digest for f in live if f.partition == one.target.partition and f.rows)
        if ordinal and there != _expected(tx, one, other, here, there):
            apart.append(f"{other.name} v{ordinal}")
    if apart:
        raise OutputsApart(str(one.target), f"{own.name} v{ordinals[own.id]}", apart)


def _expected(
    tx: Transaction,
    one: Standing,
    other: Dataset,
    here: Sequence[Fragment],
    there: Mapping[str, int],
) -> Counter[str]:
    """Count the contents that the results of these fragments put into another dataset. A fragment
    stands for every result with the same content."""
    expected: Counter[str] = Counter()
    for fragment in here:
        made = {fragment.materialization_id}
        made |= {link.id for link in one.line if link.digest == fragment.digest}
        kept = [
            {f.digest for f in Fragments(tx).of_result(result, other.id) if f.rows}
            for result in made
            if result is not None
        ]
        fitting = [digests for digests in kept if digests <= set(there)]
        expected.update(max(fitting or kept, key=len, default=()))
    return expected
