"""Versions as open tables. PyIceberg takes most of a second to import, and most commands publish
nothing: it is imported when the first version is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from tallyman.domain.version.dataset import Fragment

# ruff: noqa: PLC0415


def schema_of(file: Path, dataset: str, by: str | None) -> dict[str, Any]:
    """The columns of a Parquet file as Iceberg names and numbers them."""
    from tallyman.engine.warehouse import iceberg

    return iceberg.schema_of(file, dataset, by)


def add_iceberg_manifest(folder: Path, fragment: Fragment) -> dict[str, Any] | None:
    """Of a fragment, once, beside its files."""
    from tallyman.engine.warehouse import iceberg

    return iceberg.add_iceberg_manifest(folder, fragment)


def write_version(folder: Path, version: UUID, ordinal: int, fragments: Sequence[Fragment]) -> str:
    """The metadata of one version: where readers find it."""
    from tallyman.engine.warehouse import iceberg

    return iceberg.write_version(folder, version, ordinal, fragments)
