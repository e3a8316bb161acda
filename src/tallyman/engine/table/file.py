"""The files of tables: read with their checksums, written so that a flipped bit is found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq

from tallyman.domain.version.table import Table
from tallyman.engine.files.durable import sync
from tallyman.engine.table.values import arrow_schema
from tallyman.errors import DatasetDamaged, TableRedeclared

FILE = "part-00000.parquet"


def read_files(paths: Iterable[str], schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """Read some columns of all rows. A damaged page raises DatasetDamaged, never a wrong value.

    Rows of a rewritten fragment get new checksums: damage that is missed here would look sound
    permanently.
    """
    wanted = pa.schema([schema.field(name) for name in columns])
    tables = [wanted.empty_table()]
    for path in paths:
        try:
            tables.append(_columns_of(path, schema, columns).cast(wanted))
        except (OSError, pa.ArrowException) as error:
            raise DatasetDamaged(Path(path).name, str(error)) from error
    return pa.concat_tables(tables)


def _columns_of(path: str, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        there = [name for name in columns if name in file.schema_arrow.names]
        rows = file.read(columns=there)
    for name in columns:
        if name not in there:  # declared later: older rows have no value
            rows = rows.append_column(name, pa.nulls(len(rows), schema.field(name).type))
    return rows.select(columns)


def lacks_columns(path: str, table: Table) -> bool:
    """True if columns were declared since the file was written. A table may change in no other way:
    a column that is removed, retyped or required would lose values.
    """
    there, wanted = pq.read_schema(path).remove_metadata(), arrow_schema(table)
    if there.equals(wanted):
        return False
    shared = pa.schema([field for field in wanted if field.name in there.names])
    new = [field for field in wanted if field.name not in there.names]
    kept = {field.name: field.type for field in shared} == {f.name: f.type for f in there}
    if not kept or not all(field.nullable for field in new):
        raise TableRedeclared(table.name, _columns(there), _columns(wanted))
    return bool(new)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name} {f.type}{'' if f.nullable else ' not null'}" for f in schema)


def write_file(folder: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Path:
    """Write one new file; it is synced to the disk when this returns."""
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
