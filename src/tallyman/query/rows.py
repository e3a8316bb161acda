"""The first rows of a dataset, straight from its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from tallyman.engine.files.intact import Expected, check
from tallyman.errors import DatasetDamaged

SYSTEM = "_tm"


def first_rows(name: str, files: Sequence[Expected], limit: int) -> list[dict[str, Any]]:
    """In the order of the files; our own column is left out. A file that has to be opened is
    compared with what is recorded first."""
    rows: list[dict[str, Any]] = []
    try:
        for one in files:
            check(name, [one])
            with pq.ParquetFile(one.path, page_checksum_verification=True) as file:
                columns = [column for column in file.schema_arrow.names if column != SYSTEM]
                for batch in file.iter_batches(max(limit - len(rows), 1), columns=columns):
                    rows += batch.slice(0, limit - len(rows)).to_pylist()
                    if len(rows) >= limit:
                        return rows
    except (OSError, pa.ArrowException) as error:
        raise DatasetDamaged(name, str(error)) from error
    return rows
