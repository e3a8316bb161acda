"""A lazy entrance to Iceberg. Importing PyIceberg takes most of a second, and most commands publish
nothing, so it is imported when the first version is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from tallyman.domain.version.dataset import Fragment

# ruff: noqa: PLC0415


def schema_of(file: Path, dataset: str, by: str | None) -> dict[str, Any]:
    """Read the columns of a Parquet file as Iceberg names and numbers them."""
    from tallyman.engine.warehouse import iceberg

    return iceberg.schema_of(file, dataset, by)


def add_iceberg_manifest(folder: Path, fragment: Fragment) -> dict[str, Any] | None:
    """Write the Iceberg manifest of a fragment, once, next to its files."""
    from tallyman.engine.warehouse import iceberg

    return iceberg.add_iceberg_manifest(folder, fragment)


def write_version(folder: Path, version: UUID, ordinal: int, fragments: Sequence[Fragment]) -> str:
    """Write the metadata of one version and return its address."""
    from tallyman.engine.warehouse import iceberg

    return iceberg.write_version(folder, version, ordinal, fragments)
