"""Outside entries that somebody else changed or removed: put them right."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from tallyman.domain.version.outside_entry import OutsideEntry
from tallyman.domain.version.owner import Owner
from tallyman.registry.audit import Audit
from tallyman.registry.database import Transaction
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.outside_entries import OutsideEntries


def put_right(
    tx: Transaction, owner: Owner, datasets: Iterable[UUID], actor: str
) -> list[OutsideEntry]:
    """Make the entries of these datasets those of their current versions, and return what was
    wrong. The caller has locked the datasets."""
    return _write(tx, owner, OutsideEntries(tx, owner.org).differing(datasets), actor)


def put_all_right(tx: Transaction, owner: Owner, actor: str) -> list[OutsideEntry]:
    """Make all entries of the organisation right, and remove those that belong to no dataset."""
    wrong = OutsideEntries(tx, owner.org).differing()
    Datasets(tx).lock({entry.dataset for entry in wrong if entry.dataset})
    # Compare again under the lock: a dataset may have moved since.
    return _write(tx, owner, OutsideEntries(tx, owner.org).differing(), actor)


def _write(
    tx: Transaction, owner: Owner, wrong: list[OutsideEntry], actor: str
) -> list[OutsideEntry]:
    OutsideEntries(tx, owner.org).put({entry.name: entry.expected for entry in wrong})
    for entry in wrong:
        details = {"expected": entry.expected, "found": entry.found}
        Audit(tx, owner).add("outside_entry.restored", actor, entry.name, details=details)
    return wrong
