"""The first rows of a dataset, straight from its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyarrow import dataset as ds

from tallyman.errors import StorageFailed

SYSTEM = "_tm"


def first_rows(name: str, files: Sequence[str], limit: int) -> list[dict[str, Any]]:
    """In the order of the files; our own column is left out."""
    try:
        found = ds.dataset(list(files), format="parquet")
        columns = [column for column in found.schema.names if column != SYSTEM]
        return found.head(limit, columns=columns).to_pylist()
    except (OSError, ValueError) as error:
        raise StorageFailed(name, str(error)) from error
