"""Parquet files read and written in this process, with the checksums of their pages."""

from __future__ import annotations

import sys
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


def batches(files: Sequence[Path], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read the named columns; fields of structs are named with dots."""
    for file in files:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            yield from opened.iter_batches(BATCH, columns=list(columns), use_threads=False)


class TooManyBytes(Exception):
    """The rows take more memory than this process gives them; Spark reads them instead."""


def table(
    files: Sequence[Path],
    columns: Sequence[str] | None = None,
    *,
    only: pc.Expression | None = None,
    most: int = sys.maxsize,
) -> pa.Table:
    """Read the rows of at least one file, all or those for which `only` holds; TooManyBytes if they
    take more than `most`. Footers do not show that: a text that is repeated is in a file once.
    """
    tables: list[pa.Table] = []
    size = 0
    for rows in _pieces(files, columns, whole=most == sys.maxsize):
        tables.append(rows if only is None else rows.filter(only))
        size += tables[-1].nbytes
        if size > most:
            raise TooManyBytes
    return _together(tables)


def _pieces(
    files: Sequence[Path], columns: Sequence[str] | None, *, whole: bool
) -> Iterator[pa.Table]:
    """Read each file at once or in pieces; at least one piece of each, which may be empty."""
    wanted = None if columns is None else list(columns)
    for file in files:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            if whole or not opened.metadata.num_rows:
                yield opened.read(wanted, use_threads=False)
            else:
                batches = opened.iter_batches(HELD, columns=wanted, use_threads=False)
                yield from (pa.Table.from_batches([batch]) for batch in batches)


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="permissive")  # a file may know of no NULLs


def write(rows: pa.Table, file: Path, **options: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file, **{**OPTIONS, **options})
