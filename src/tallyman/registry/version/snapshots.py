"""Snapshots: permanent names for versions of datasets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tallyman.domain.version.dataset import Dataset
from tallyman.domain.version.owner import Owner
from tallyman.errors import NameTaken
from tallyman.registry.database import Transaction
from tallyman.registry.version.datasets import NAMING, Datasets

ADD = """
    INSERT INTO snapshots (org, alias, dataset_id, ordinal, actor)
    VALUES (%(org)s, %(alias)s, %(dataset)s, %(ordinal)s, %(actor)s)
    ON CONFLICT DO NOTHING
"""
FIND = "SELECT * FROM snapshots WHERE org = %(org)s AND alias = %(alias)s"
LIST = """
    SELECT s.alias, d.name AS dataset, s.ordinal, s.actor, s.created_at
    FROM snapshots s JOIN datasets d ON d.id = s.dataset_id
    WHERE d.org = %(org)s AND d.project = %(project)s
      AND (%(dataset)s::uuid IS NULL OR d.id = %(dataset)s)
    ORDER BY s.alias
"""


class Snapshots:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(self, alias: str, dataset: Dataset, ordinal: int, actor: str) -> bool:
        """Add a snapshot; False if the same name for the same version already exists."""
        org = dataset.owner.org
        found = self.find(alias, org)
        if found is not None and (found["dataset_id"], found["ordinal"]) == (dataset.id, ordinal):
            return False
        self.tx.execute(NAMING)
        by = Datasets(self.tx).taken(alias, org)
        if by:
            raise NameTaken(alias, by)
        given = {"org": org, "alias": alias, "dataset": dataset.id}
        given |= {"ordinal": ordinal, "actor": actor}
        if not self.tx.execute(ADD, given).rowcount:
            raise NameTaken(alias, "snapshot")
        return True

    def find(self, alias: str, org: str) -> Mapping[str, Any] | None:
        return self.tx.execute(FIND, {"org": org, "alias": alias}).fetchone()

    def list(self, owner: Owner, dataset: UUID | None = None) -> list[dict[str, Any]]:
        given = owner.key | {"dataset": dataset}
        return self.tx.execute(LIST, given).fetchall()
