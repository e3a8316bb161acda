"""The first rows of a dataset, straight from its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyarrow import parquet as pq

from tallyman.errors import DatasetDamaged

SYSTEM = "_tm"


def first_rows(name: str, files: Sequence[str], limit: int) -> list[dict[str, Any]]:
    """In the order of the files; our own column is left out."""
    rows: list[dict[str, Any]] = []
    try:
        for path in files:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                columns = [column for column in file.schema_arrow.names if column != SYSTEM]
                for batch in file.iter_batches(max(limit - len(rows), 1), columns=columns):
                    rows += batch.slice(0, limit - len(rows)).to_pylist()
                    if len(rows) >= limit:
                        return rows
    except OSError as error:
        raise DatasetDamaged(name, str(error)) from error
    return rows
