"""The files of tables: read with their checksums, written so that a flipped bit is found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq

from tallyman.engine.durable import sync

FILE = "part-00000.parquet"


def read_files(paths: Iterable[str], schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """Some columns of all rows. A damaged page is an OSError, never a wrong value.

    Rows of a fragment that is rewritten get fresh checksums: damage that was not found here
    would look sound for ever.
    """
    wanted = pa.schema([schema.field(name) for name in columns])
    parts = [wanted.empty_table()]
    for path in paths:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            parts.append(file.read(columns=list(columns)).select(columns).cast(wanted))
    return pa.concat_tables(parts)


def write_file(folder: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Path:
    """One file, on the disk when this returns; it must not be there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    with (
        path.open("xb") as file,
        pq.ParquetWriter(
            file, schema, compression="snappy", write_page_checksum=True, version="2.6"
        ) as writer,
    ):
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
    sync(path)
    return path
