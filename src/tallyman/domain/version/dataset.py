"""Datasets: what people call a table or an asset's output, and the files its versions are of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from tallyman.errors import UsageError

DATASET_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")


def checked_name(name: str) -> str:
    """The name itself, or UsageError: a name is written in SQL, in YAML and in addresses."""
    if not DATASET_NAME.fullmatch(name):
        raise UsageError(
            f"dataset {name!r}: use lower-case letters, digits and '_', a letter first, at most 128"
        )
    return name


class Kind(StrEnum):
    ASSET = "asset"
    TABLE = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """`name` for people, `id` for storage. What is current is a version, or nothing."""

    id: UUID
    name: str
    kind: Kind
    project: str
    producer: str
    key_columns: tuple[str, ...] = ()
    partition_column: str | None = None
    published: bool = True
    ordinal: int = 0
    current_version: UUID | None = None


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file as it was when it was staged. `path` is below the dataset's; `rows` is None of a
    file that describes others."""

    path: str
    sha256: str
    bytes: int
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """Files that came into a dataset together and leave it together."""

    id: UUID
    dataset_id: UUID
    partition: str | None = None
    materialization_id: UUID | None = None
    files: tuple[DataFile, ...] = ()
    digest: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    iceberg_manifest: Mapping[str, Any] | None = None
    since: int | None = None
    """The version it came in with; None while it is in none."""
    invalidated: bool = False
    """Somebody said that it does not count: an equal one replaces it."""

    @property
    def rows(self) -> int:
        return sum(file.rows or 0 for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


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
    """What other engines read it by; nothing is known of versions from before it was recorded."""
