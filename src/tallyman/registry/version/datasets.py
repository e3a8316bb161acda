"""Datasets: their producers, their names, and their current versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from tallyman.domain.version.dataset import Dataset, Kind
from tallyman.errors import NameTaken, NotFound, SingleProducer
from tallyman.errors.wording import nearest
from tallyman.registry.database import Transaction

COLUMNS = """
    id, name, kind, project, producer, key_columns, partition_column, published, ordinal,
    current_version
"""
ADD = """
    INSERT INTO datasets (name, kind, project, producer, key_columns, partition_column, published)
    VALUES (%(name)s, %(kind)s, %(project)s, %(producer)s, %(key_columns)s, %(partition_column)s,
            %(published)s)
    ON CONFLICT DO NOTHING   -- two first runs at once: one row
"""
OF_PRODUCER = f"""
    SELECT {COLUMNS} FROM datasets
    WHERE org = 'default' AND project = %(project)s AND producer = ANY(%(producers)s)
      AND kind = %(kind)s
"""
ADOPT = """
    UPDATE datasets
    SET kind = %(kind)s, project = %(project)s, producer = %(producer)s,
        published = %(published)s, updated_at = now()
    WHERE org = 'default' AND name = %(name)s
      AND current_version IS NULL   -- it has no readable version: nobody produces it anymore
"""
DESCRIBE = """
    UPDATE datasets
    SET key_columns = %(key_columns)s, partition_column = %(partition_column)s,
        -- Once it can be read, only a plan or a person changes who sees it.
        published = CASE WHEN current_version IS NULL THEN %(published)s ELSE published END,
        updated_at = now()
    WHERE id = %(id)s
      AND (key_columns <> %(key_columns)s OR partition_column IS DISTINCT FROM %(partition_column)s
           OR (current_version IS NULL AND published <> %(published)s))
"""
BY_NAME = f"SELECT {COLUMNS} FROM datasets WHERE org = 'default' AND name = %(name)s"
BY_ID = f"SELECT {COLUMNS} FROM datasets WHERE id = ANY(%(ids)s)"
# Lock in one order: two commits that need the same datasets cannot deadlock.
LOCK = f"SELECT {COLUMNS} FROM datasets WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE"
LIST = f"SELECT {COLUMNS} FROM datasets WHERE project = %(project)s ORDER BY name"
MOVE = """
    UPDATE datasets SET ordinal = %(ordinal)s, current_version = %(version)s, updated_at = now()
    WHERE id = %(id)s AND ordinal = %(ordinal)s - 1   -- no row: somebody else published first
"""
RENAME = "UPDATE datasets SET name = %(name)s, updated_at = now() WHERE id = %(id)s"
EXPOSE = "UPDATE datasets SET published = %(published)s, updated_at = now() WHERE id = %(id)s"
ORDINALS = "SELECT id, ordinal FROM datasets WHERE project = %(project)s"
# Datasets and snapshots share a namespace but no unique index, so naming is serialized.
NAMING = "SELECT pg_advisory_xact_lock(x'7A110002'::integer)"
TAKEN = """
    SELECT 'dataset' AS by FROM datasets WHERE org = 'default' AND name = %(name)s
    UNION ALL SELECT 'snapshot' FROM snapshots WHERE org = 'default' AND alias = %(name)s
"""


class Datasets:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def ensure(self, wanted: Dataset) -> Dataset:
        """Return the dataset of this producer, registered if it is new; or raise SingleProducer."""
        found = self.of_producer(wanted.project, wanted.producer, wanted.kind)
        if found is None:
            self._add(wanted)
            found = self.of_producer(wanted.project, wanted.producer, wanted.kind)
            if found is None:
                other = self.find(wanted.name)
                if other is None:
                    raise NameTaken(wanted.name, "snapshot")
                raise SingleProducer(wanted.name, other.producer, other.project)
        given = {
            "id": found.id,
            "key_columns": list(wanted.key_columns),
            "partition_column": wanted.partition_column,
            "published": wanted.published,
        }
        self.tx.execute(DESCRIBE, given)
        return replace(
            found, key_columns=wanted.key_columns, partition_column=wanted.partition_column
        )

    def _add(self, wanted: Dataset) -> None:
        self.tx.execute(NAMING)
        given = {
            "name": wanted.name,
            "kind": wanted.kind.value,
            "project": wanted.project,
            "producer": wanted.producer,
            "key_columns": list(wanted.key_columns),
            "partition_column": wanted.partition_column,
            "published": wanted.published,
        }
        if self.taken(wanted.name) != "snapshot" and not self.tx.execute(ADD, given).rowcount:
            self.tx.execute(ADOPT, given)

    def move(self, dataset: UUID, *, ordinal: int, version: UUID | None) -> None:
        """Move to a new version. The caller has locked the row."""
        given = {"id": dataset, "ordinal": ordinal, "version": version}
        assert self.tx.execute(MOVE, given).rowcount == 1

    def rename(self, dataset: UUID, name: str) -> None:
        """Change the name only: id, paths, versions and lineage stay."""
        self.tx.execute(NAMING)
        by = self.taken(name)
        if by:
            raise NameTaken(name, by)
        self.tx.execute(RENAME, {"id": dataset, "name": name})

    def expose(self, dataset: UUID, *, published: bool) -> None:
        self.tx.execute(EXPOSE, {"id": dataset, "published": published})

    # ---- queries ----------------------------------------------------------------------------

    def lock(self, ids: Iterable[UUID]) -> dict[UUID, Dataset]:
        """Lock datasets, so that nobody else moves them until the transaction ends."""
        rows = self.tx.execute(LOCK, {"ids": list(ids)}).fetchall()
        return {row["id"]: _dataset(row) for row in rows}

    def by_ids(self, ids: Iterable[UUID]) -> dict[UUID, Dataset]:
        rows = self.tx.execute(BY_ID, {"ids": list(ids)}).fetchall()
        return {row["id"]: _dataset(row) for row in rows}

    def find(self, name: str) -> Dataset | None:
        row = self.tx.execute(BY_NAME, {"name": name}).fetchone()
        return _dataset(row) if row else None

    def get(self, name: str, project: str) -> Dataset:
        """Find a dataset by its name, or by the asset that produces it in this project."""
        found = self.find(name) or self._produced(project, name)
        if found is None:
            known = [dataset.name for dataset in self.list(project)]
            raise NotFound("dataset", name, nearest(name, known))
        return found

    def own(self, name: str, project: str) -> Dataset:
        """Find a dataset to change; raises SingleProducer if it belongs to another project."""
        found = self.get(name, project)
        if found.project != project:
            raise SingleProducer(found.name, found.producer, found.project)
        return found

    def _produced(self, project: str, name: str) -> Dataset | None:
        return self.of_producer(project, name, Kind.ASSET) or self.of_producer(
            project, name, Kind.TABLE
        )

    def of_producer(self, project: str, producer: str, kind: Kind) -> Dataset | None:
        return next(iter(self.of_producers(project, [producer], kind)), None)

    def of_producers(self, project: str, producers: Iterable[str], kind: Kind) -> list[Dataset]:
        """Find by producer and kind: a table and an asset may have had the same name over time."""
        given = {"project": project, "producers": list(producers), "kind": kind.value}
        return [_dataset(row) for row in self.tx.execute(OF_PRODUCER, given).fetchall()]

    def list(self, project: str) -> list[Dataset]:
        return [_dataset(row) for row in self.tx.execute(LIST, {"project": project}).fetchall()]

    def ordinals(self, project: str) -> dict[UUID, int]:
        """Return the current version of every dataset of a project."""
        rows = self.tx.execute(ORDINALS, {"project": project}).fetchall()
        return {row["id"]: row["ordinal"] for row in rows}

    def taken(self, name: str) -> str | None:
        row = self.tx.execute(TAKEN, {"name": name}).fetchone()
        return str(row["by"]) if row else None


def _dataset(row: Mapping[str, Any]) -> Dataset:
    found = dict(row)
    kind, keys = Kind(found.pop("kind")), tuple(found.pop("key_columns"))
    return Dataset(kind=kind, key_columns=keys, **found)
