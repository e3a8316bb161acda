"""Read the first rows of a dataset directly from its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from tallyman.engine.files.intact import Expected, check
from tallyman.errors import DatasetDamaged

SYSTEM = "_tm"


def first_rows(name: str, files: Sequence[Expected], limit: int) -> list[dict[str, Any]]:
    """Return rows in file order, without the engine's own column. Each file is checked against its
    recorded hash before it is opened."""
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
