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
    tx: Transaction, owner: Owner, datasets: Iterable[UUID] | None, actor: str
) -> list[OutsideEntry]:
    """Make the entries of these datasets, which the caller has locked, those of their current
    versions, and return what was wrong; of all datasets of the organisation if none are given, and
    then remove those that belong to no dataset."""
    entries = OutsideEntries(tx, owner.org)
    if datasets is None:
        # They are compared again under the lock: a dataset may have moved since.
        Datasets(tx).lock({entry.dataset for entry in entries.differing() if entry.dataset})
    wrong = entries.differing(datasets)
    entries.put({entry.name: entry.expected for entry in wrong})
    for entry in wrong:
        details = {"expected": entry.expected, "found": entry.found}
        Audit(tx, owner).add("outside_entry.restored", actor, entry.name, details=details)
    return wrong
