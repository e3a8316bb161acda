"""Snapshots: permanent names for versions of datasets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tallyman.errors import NameTaken
from tallyman.registry.database import Transaction
from tallyman.registry.version.datasets import NAMING, Datasets

ADD = """
    INSERT INTO snapshots (alias, dataset_id, ordinal, actor)
    VALUES (%(alias)s, %(dataset)s, %(ordinal)s, %(actor)s)
    ON CONFLICT DO NOTHING
"""
FIND = "SELECT * FROM snapshots WHERE org = 'default' AND alias = %(alias)s"
LIST = """
    SELECT s.alias, d.name AS dataset, s.ordinal, s.actor, s.created_at
    FROM snapshots s JOIN datasets d ON d.id = s.dataset_id
    WHERE d.project = %(project)s AND (%(dataset)s::uuid IS NULL OR d.id = %(dataset)s)
    ORDER BY s.alias
"""


class Snapshots:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def add(self, alias: str, dataset: UUID, ordinal: int, actor: str) -> bool:
        """Add a snapshot; False if the same name for the same version already exists."""
        found = self.find(alias)
        if found is not None and (found["dataset_id"], found["ordinal"]) == (dataset, ordinal):
            return False
        self.tx.execute(NAMING)
        by = Datasets(self.tx).taken(alias)
        if by:
            raise NameTaken(alias, by)
        given = {"alias": alias, "dataset": dataset, "ordinal": ordinal, "actor": actor}
        if not self.tx.execute(ADD, given).rowcount:
            raise NameTaken(alias, "snapshot")
        return True

    def find(self, alias: str) -> Mapping[str, Any] | None:
        return self.tx.execute(FIND, {"alias": alias}).fetchone()

    def list(self, project: str, dataset: UUID | None = None) -> list[dict[str, Any]]:
        given = {"project": project, "dataset": dataset}
        return self.tx.execute(LIST, given).fetchall()
