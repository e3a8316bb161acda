"""Parquet files read and written in this process, with the checksums of their pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROWS = 1_000_000
"""The largest number of rows of one kind that this process reads: about half a second."""
BYTES = 256 << 20
"""The most bytes of rows that this process holds at once: one row may be a line of megabytes."""
BATCH = 65_536
HELD = 8_192
"""The number of rows that are read before their bytes are counted."""
OPTIONS: Mapping[str, Any] = {
    "compression": "snappy",
    "write_page_checksum": True,
    "store_schema": False,
}


def rows_in(files: Sequence[Path]) -> int:
    """Count rows from the footers."""
    return sum(pq.read_metadata(file).num_rows for file in files)


def noted(file: Path, name: str) -> bytes | None:
    """Return what the writer of a file noted under a name."""
    return (pq.read_metadata(file).metadata or {}).get(name.encode())


def few(rows: int, most: int = ROWS) -> bool:
    """True if this process handles that many rows itself, instead of asking Spark."""
    return rows <= most


def batches(
    files: Sequence[Path], columns: Sequence[str], rows: int = BATCH
) -> Iterator[pa.RecordBatch]:
    """Read the named columns; fields of structs are named with dots."""
    for file in files:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            yield from opened.iter_batches(rows, columns=list(columns), use_threads=False)


def held(
    files: Sequence[Path], columns: Sequence[str], only: pc.Expression | None = None
) -> pa.Table | None:
    """Read the rows for which `only` holds, of at least one file; None if they take too many
    bytes. Footers do not show that: a text of a megabyte, repeated, is in the file once.
    """
    tables: list[pa.Table] = []
    size = 0
    for batch in batches(files, columns, HELD):
        rows = pa.Table.from_batches([batch])
        rows = rows if only is None else rows.filter(only)
        tables.append(rows)
        size += rows.nbytes
        if size > BYTES:
            return None
    return _together(tables) if tables else table(files, columns)


def table(files: Sequence[Path], columns: Sequence[str] | None = None) -> pa.Table:
    """Read all rows of at least one file."""
    wanted = None if columns is None else list(columns)
    tables = []
    for file in files:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            tables.append(opened.read(wanted, use_threads=False))
    return _together(tables)


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="permissive")  # a file may know of no NULLs


def write(rows: pa.Table, file: Path, **options: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file, **{**OPTIONS, **options})
