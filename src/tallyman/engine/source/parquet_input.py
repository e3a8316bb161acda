"""Parquet inputs: columns are typed and rows are numbered by the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tallyman.engine.expressions.column_names import KEY
from tallyman.engine.expressions.columns import col
from tallyman.engine.files import parquet
from tallyman.engine.files.listing import InputFiles
from tallyman.engine.source import lines
from tallyman.engine.source.door_memory import Door
from tallyman.engine.source.source import Input, nullable, placed
from tallyman.engine.spark import digest
from tallyman.engine.spark.spark_hash import digest_of
from tallyman.engine.spark.spark_text import NoSparkText, texts
from tallyman.errors import InputUnreadable

KEYS = 100_000
"""The largest number of keys that this process reads at the door: a tenth of a second."""
READABLE = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "date": pa.date32(),
}
"""Types of keys that this process reads as Spark does, and how their files declare them."""


def footers(files: InputFiles) -> list[pq.FileMetaData]:
    """Read the footer of every file; InputUnreadable names the first that is not Parquet."""
    found = []
    for file in files.files:
        try:
            found.append(pq.read_metadata(file.path))
        except (pa.ArrowException, OSError) as error:
            raise InputUnreadable(files.input, file.name, str(error)) from None
    return found


@dataclass(frozen=True)
class ParquetInput(Input):
    """A Parquet input; a record without a key is named by its row number."""

    @cached_property
    def _footers(self) -> list[pq.FileMetaData]:
        return footers(self.files)

    @cached_property
    def every_record_keyed(self) -> bool:
        return bool(self.key) and all(map(self._keyed, self._footers))

    def _keyed(self, footer: pq.FileMetaData) -> bool:
        if footer.num_rows == 0:
            return True
        names = [footer.schema.column(i).path for i in range(footer.num_columns)]
        if not set(self.key) <= set(names):
            return False
        groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
        statistics = [g.column(names.index(k)).statistics for g in groups for k in self.key]
        return all(s is not None and s.has_null_count and s.null_count == 0 for s in statistics)

    def _read(self) -> DataFrame:
        reader = self.spark.read.options(**self.options)
        if self.files.folders_are_columns:
            reader = reader.option("basePath", self.files.root)
        return reader.schema(StructType(nullable(self.schema.fields))).parquet(*self.files.paths)

    def records(self, columns: Sequence[str] | None = None) -> DataFrame:
        names = self.schema.names if columns is None else list(columns)
        if self.every_record_keyed and self.places is None:
            return self._read().select(*map(col, names), self.own_key().alias(KEY))
        rows = self._read()
        hidden = rows.metadataColumn("_metadata")  # a user's column may have the same name
        path = hidden.getField("file_path").alias("_tm_path")
        row = (hidden.getField("row_index") + 1).alias("_tm_row")
        found = rows.select("*", path, row)
        name = lines.relative_name(F.col("_tm_path"), self.files.root)
        fallback = F.concat(F.lit("@"), name, F.lit("#"), F.col("_tm_row").cast("string"))
        key = F.coalesce(self.own_key(), fallback) if self.key else fallback
        return found.select(*map(col, names), key.alias(KEY), *placed(self, fallback))

    def at_most(self) -> int:
        return sum(footer.num_rows for footer in self._footers)

    @cached_property
    def keys_here(self) -> Sequence[str | None] | None:
        """The texts of a key column without NULLs, of a type with one text per value."""
        if len(self.key) != 1 or self.places is not None or self.hides_key:
            return None
        declared = READABLE.get(self.schema[self.key[0]].dataType.simpleString())
        if declared is None or not self.every_record_keyed or not parquet.few(self.at_most(), KEYS):
            return None
        paths = [Path(file.path) for file in self.files.files]
        if any(pq.read_schema(path).field(self.key[0]).type != declared for path in paths):
            return None
        try:
            read = parquet.batches(paths, [self.key[0]])
            return [text for batch in read for text in texts(batch[self.key[0]])]
        except NoSparkText:
            return None

    def measured(self) -> Door:
        keys = self.keys_here
        found = digest.of_keys(self.keys()) if keys is None else digest_of(keys)
        # Two independent witnesses: the footers count the rows, the scan digests the keys.
        counted = self.at_most()
        nulls = 0
        if self.key and not self.every_record_keyed:
            nulls = self.keys().where(lines.is_place(F.col(KEY))).count()
        return Door(replace(found, count=counted), nulls or (0 if self.key else counted))
