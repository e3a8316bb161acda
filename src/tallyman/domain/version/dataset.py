"""Datasets: the output of an asset or a table, with its versions and their files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from tallyman.domain.version.owner import Owner
from tallyman.errors import UsageError

DATASET_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")


def checked_name(name: str) -> str:
    """Return a valid name, else UsageError: names are used in SQL, YAML and addresses."""
    if not DATASET_NAME.fullmatch(name):
        raise UsageError(
            f"dataset {name!r}: use lower-case letters, digits and '_', beginning with a letter, "
            "at most 128"
        )
    return name


def registered_by(asset: str, name: str) -> str:
    """Name the producer of a dataset that an asset publishes next to its own."""
    return f"{asset}/{name}"


def asset_of(producer: str) -> str:
    """Return the asset behind a producer, which may name one of its outputs."""
    return producer.partition("/")[0]


class Kind(StrEnum):
    ASSET = "asset"
    TABLE = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The identity of a dataset: `name` for people, `id` for storage. It may have no version."""

    id: UUID
    name: str
    kind: Kind
    owner: Owner
    producer: str
    key_columns: tuple[str, ...] = ()
    partition_column: str | None = None
    published: bool = True
    ordinal: int = 0
    current_version: UUID | None = None


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file, as it was when its fragment was prepared. `path` is relative to the dataset; `rows`
    is None for a file that describes others.
    """

    path: str
    sha256: str
    bytes: int
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """Files that enter a dataset together and leave it together."""

    id: UUID
    dataset_id: UUID
    partition: str | None = None
    materialization_id: UUID | None = None
    files: tuple[DataFile, ...] = ()
    digest: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    iceberg_manifest: Mapping[str, Any] | None = None
    since: int | None = None
    """The version it entered with; None while no version has it."""
    invalidated: bool = False
    """True if it was invalidated: an equal fragment replaces it."""
    owner: Owner | None = None
    """The pipeline whose warehouse has the files; None for a fragment that is being made."""
    warehouse: str | None = None
    """The folder of that warehouse; None for a fragment that is being made."""

    @property
    def rows(self) -> int:
        return sum(file.rows or 0 for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the data files, and of the manifest that describes them."""
        described = (self.iceberg_manifest or {}).get("path")
        return tuple(file.path for file in self.files) + ((str(described),) if described else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One immutable state of a dataset."""

    id: UUID
    dataset_id: UUID
    ordinal: int
    operation: str
    commit_id: UUID
    rows: int
    bytes: int
    files: int
    restores: int | None = None
    metadata_location: str | None = None
    created_at: datetime | None = None
    purged_at: datetime | None = None
    metadata_files: tuple[DataFile, ...] = ()
    """The files by which other engines read the version; none if there is nothing to read."""
