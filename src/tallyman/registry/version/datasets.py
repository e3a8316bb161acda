"""Datasets: their producers, their names, and their current versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from tallyman.domain.version.dataset import Dataset, Kind
from tallyman.domain.version.owner import Owner
from tallyman.errors import NameTaken, NotFound, SingleProducer
from tallyman.errors.wording import nearest
from tallyman.registry.database import Transaction

COLUMNS = """
    id, name, kind, org, project, producer, key_columns, partition_column, published, ordinal,
    current_version
"""
ADD = """
    INSERT INTO datasets (name, kind, org, project, producer, key_columns, partition_column,
                          published)
    VALUES (%(name)s, %(kind)s, %(org)s, %(project)s, %(producer)s, %(key_columns)s,
            %(partition_column)s, %(published)s)
    ON CONFLICT DO NOTHING   -- two first runs at once: one row
"""
OF_PRODUCER = f"""
    SELECT {COLUMNS} FROM datasets
    WHERE org = %(org)s AND project = %(project)s AND producer = ANY(%(producers)s)
      AND kind = %(kind)s
"""
ADOPT = """
    UPDATE datasets
    SET kind = %(kind)s, project = %(project)s, producer = %(producer)s,
        published = %(published)s, updated_at = now()
    WHERE org = %(org)s AND name = %(name)s
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
BY_NAME = f"SELECT {COLUMNS} FROM datasets WHERE org = %(org)s AND name = %(name)s"
BY_ID = f"SELECT {COLUMNS} FROM datasets WHERE id = ANY(%(ids)s)"
# Lock in one order: two commits that need the same datasets cannot deadlock.
LOCK = f"SELECT {COLUMNS} FROM datasets WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE"
LIST = f"""
    SELECT {COLUMNS} FROM datasets WHERE org = %(org)s AND project = %(project)s ORDER BY name
"""
PUBLISHED = f"""
    SELECT {COLUMNS} FROM datasets
    WHERE org = %(org)s AND published AND current_version IS NOT NULL ORDER BY name
"""
READ_BEFORE = f"""
    SELECT {", ".join("d." + name.strip() for name in COLUMNS.split(","))}
    FROM materializations m
    CROSS JOIN unnest(m.upstream_inputs, m.upstream_projects, m.upstream_assets, m.upstream_ids)
        AS u (input, project, producer, id)
    JOIN datasets d ON d.org = m.org AND d.project = u.project AND d.producer = u.producer
        AND d.kind = CASE WHEN u.id IS NULL THEN 'table' ELSE 'asset' END
    WHERE m.org = %(org)s AND m.project = %(project)s AND m.status = 'success'
      AND m.upstream_inputs @> ARRAY[%(input)s::text] AND u.input = %(input)s
    ORDER BY m.completion DESC LIMIT 1
"""
WAS_CALLED = """
    SELECT FROM audit_log
    WHERE org = %(org)s AND project = %(project)s AND event_type = 'dataset.renamed'
      AND details ->> 'dataset' = %(id)s AND details ->> 'was' = %(name)s LIMIT 1
"""
MOVE = """
    UPDATE datasets SET ordinal = %(ordinal)s, current_version = %(version)s, updated_at = now()
    WHERE id = %(id)s AND ordinal = %(ordinal)s - 1   -- no row: somebody else published first
"""
RENAME = "UPDATE datasets SET name = %(name)s, updated_at = now() WHERE id = %(id)s"
EXPOSE = "UPDATE datasets SET published = %(published)s, updated_at = now() WHERE id = %(id)s"
ORDINALS = """
    SELECT id, ordinal FROM datasets WHERE org = %(org)s AND project = %(project)s
"""
# Also what made own results stale: their marks are cleared by a run that began after it.
OTHERS = """
    SELECT id, ordinal FROM datasets WHERE id = ANY(%(ids)s)
    UNION
    SELECT cause.id, cause.ordinal
    FROM datasets d
    JOIN invalidations i ON i.dataset_id = d.id AND i.processed_at IS NULL
    JOIN invalidations by ON by.id = i.caused_by
    JOIN datasets cause ON cause.id = by.dataset_id
    WHERE d.org = %(org)s AND d.project = %(project)s
      AND (cause.org, cause.project) <> (d.org, d.project)
"""
# Datasets and snapshots share a namespace but no unique index, so naming is serialized.
NAMING = "SELECT pg_advisory_xact_lock(x'7A110002'::integer)"
TAKEN = """
    SELECT 'dataset' AS by FROM datasets WHERE org = %(org)s AND name = %(name)s
    UNION ALL SELECT 'snapshot' FROM snapshots WHERE org = %(org)s AND alias = %(name)s
"""


class Datasets:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def ensure(self, wanted: Dataset) -> Dataset:
        """Return the dataset of this producer, registered if it is new; or raise SingleProducer."""
        given = wanted.owner.key | {
            "name": wanted.name,
            "kind": wanted.kind.value,
            "producer": wanted.producer,
            "key_columns": list(wanted.key_columns),
            "partition_column": wanted.partition_column,
            "published": wanted.published,
        }
        found = self.of_producer(wanted.owner, wanted.producer, wanted.kind)
        if found is None:
            self._add(wanted, given)
            found = self.of_producer(wanted.owner, wanted.producer, wanted.kind)
            if found is None:
                other = self.find(wanted.name, wanted.owner.org)
                if other is None:
                    raise NameTaken(wanted.name, "snapshot")
                raise SingleProducer(wanted.name, other.producer, other.owner.project)
        self.tx.execute(DESCRIBE, given | {"id": found.id})
        return replace(
            found, key_columns=wanted.key_columns, partition_column=wanted.partition_column
        )

    def _add(self, wanted: Dataset, given: Mapping[str, object]) -> None:
        self.tx.execute(NAMING)
        if (
            self.taken(wanted.name, wanted.owner.org) != "snapshot"
            and not self.tx.execute(ADD, given).rowcount
        ):
            self.tx.execute(ADOPT, given)

    def move(self, dataset: UUID, *, ordinal: int, version: UUID | None) -> None:
        """Move to a new version. The caller has locked the row."""
        given = {"id": dataset, "ordinal": ordinal, "version": version}
        assert self.tx.execute(MOVE, given).rowcount == 1

    def rename(self, dataset: Dataset, name: str) -> None:
        """Change the name only: id, paths, versions and lineage stay."""
        self.tx.execute(NAMING)
        by = self.taken(name, dataset.owner.org)
        if by:
            raise NameTaken(name, by)
        self.tx.execute(RENAME, {"id": dataset.id, "name": name})

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

    def find(self, name: str, org: str) -> Dataset | None:
        row = self.tx.execute(BY_NAME, {"org": org, "name": name}).fetchone()
        return _dataset(row) if row else None

    def get(self, name: str, owner: Owner) -> Dataset:
        """Find a dataset by its name, or by the asset that produces it in this pipeline. A dataset
        that another pipeline hides looks like one that does not exist."""
        found = self.find(name, owner.org)
        if found is None or not readable(found, owner):
            kinds = (self.of_producer(owner, name, kind) for kind in (Kind.ASSET, Kind.TABLE))
            found = next(filter(None, kinds), None)
        if found is None:
            known = [d.name for d in (*self.list(owner), *self.published(owner.org))]
            raise NotFound("dataset", name, nearest(name, known))
        return found

    def read_before(self, owner: Owner, name: str) -> Dataset | None:
        """Return the dataset that the newest result of the pipeline read as this input."""
        row = self.tx.execute(READ_BEFORE, owner.key | {"input": name}).fetchone()
        return _dataset(row) if row else None

    def was_called(self, dataset: Dataset, name: str) -> bool:
        """True if the dataset had this name until it was renamed."""
        given = dataset.owner.key | {"id": str(dataset.id), "name": name}
        return self.tx.execute(WAS_CALLED, given).fetchone() is not None

    def published(self, org: str) -> list[Dataset]:
        """List what every pipeline of the organisation may read."""
        return [_dataset(row) for row in self.tx.execute(PUBLISHED, {"org": org}).fetchall()]

    def own(self, name: str, owner: Owner) -> Dataset:
        """Find a dataset to change; raises SingleProducer if it belongs to another pipeline."""
        found = self.get(name, owner)
        if found.owner != owner:
            raise SingleProducer(found.name, found.producer, found.owner.project)
        return found

    def of_producer(self, owner: Owner, producer: str, kind: Kind) -> Dataset | None:
        return next(iter(self.of_producers(owner, [producer], kind)), None)

    def of_producers(self, owner: Owner, producers: Iterable[str], kind: Kind) -> list[Dataset]:
        """Find by producer and kind: a table and an asset may have had the same name over time."""
        given = owner.key | {"producers": list(producers), "kind": kind.value}
        return [_dataset(row) for row in self.tx.execute(OF_PRODUCER, given).fetchall()]

    def list(self, owner: Owner) -> list[Dataset]:
        return [_dataset(row) for row in self.tx.execute(LIST, owner.key).fetchall()]

    def ordinals(self, owner: Owner) -> dict[UUID, int]:
        """Return the current version of every dataset of a pipeline."""
        rows = self.tx.execute(ORDINALS, owner.key).fetchall()
        return {row["id"]: row["ordinal"] for row in rows}

    def others(self, owner: Owner, ids: Iterable[UUID]) -> dict[UUID, int]:
        """Return the current version of datasets of other pipelines: of these, and of those that
        made results of this pipeline stale."""
        rows = self.tx.execute(OTHERS, owner.key | {"ids": list(ids)}).fetchall()
        return {row["id"]: row["ordinal"] for row in rows}

    def taken(self, name: str, org: str) -> str | None:
        row = self.tx.execute(TAKEN, {"org": org, "name": name}).fetchone()
        return str(row["by"]) if row else None


def readable(dataset: Dataset, owner: Owner) -> bool:
    """True if the pipeline may read the dataset: its own, or one that another one published."""
    return dataset.owner == owner or (dataset.published and dataset.current_version is not None)


def _dataset(row: Mapping[str, Any]) -> Dataset:
    found = dict(row)
    kind, keys = Kind(found.pop("kind")), tuple(found.pop("key_columns"))
    owner = Owner(found.pop("org"), found.pop("project"))
    return Dataset(kind=kind, key_columns=keys, owner=owner, **found)
