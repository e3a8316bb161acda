"""Parquet inputs: columns are typed and rows are numbered by the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tallyman.engine.expressions.column_names import ELEMENT, KEY, UNFIT, literal, quoted
from tallyman.engine.files import parquet
from tallyman.engine.files.listing import escaped
from tallyman.engine.files.parquet_set import ParquetSet, ReadTogether, outside_years, top_column
from tallyman.engine.files.parquet_types import (
    COUNTS,
    NANOSECONDS,
    NOTHING,
    ColumnType,
    converted,
    of_spark,
)
from tallyman.engine.source import lines, unfit
from tallyman.engine.source.door_memory import Door
from tallyman.engine.source.source import Input, in_few_tasks, nullable, placed
from tallyman.engine.spark import digest
from tallyman.engine.spark.spark_hash import digest_of
from tallyman.engine.spark.spark_text import NoSparkText, texts

KEYS = 100_000
"""The largest number of keys that this process reads at the door: a tenth of a second."""
READABLE = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "date": pa.date32(),
}
"""Types of keys that this process reads as Spark does, and how their files declare them."""
PATH, ROW = "_tm_path", "_tm_row"


def column_types(schema: StructType) -> dict[str, ColumnType]:
    return of_spark(schema.jsonValue()).fields


@dataclass(frozen=True)
class ParquetInput(Input):
    """A Parquet input; a record without a key is named by its row number."""

    own: bool = False
    """True for files that a run of this project wrote and proved."""

    @cached_property
    def file_set(self) -> ParquetSet:
        return ParquetSet(self.files)

    @cached_property
    def wanted(self) -> dict[str, ColumnType]:
        return column_types(self.schema)

    @cached_property
    def every_record_keyed(self) -> bool:
        if not self.key or self._in_nanoseconds & {*self.key}:
            return False
        return all(map(self._keyed, self.file_set.footers))

    @property
    def keyed_by_content(self) -> bool:
        """False also for rows of our own files without a key: their names contain the fragment."""
        return super().keyed_by_content and (not self.own or self.every_record_keyed)

    def _keyed(self, footer: pq.FileMetaData) -> bool:
        if footer.num_rows == 0:
            return True
        names = [footer.schema.column(i).path for i in range(footer.num_columns)]
        if not set(self.key) <= set(names):
            return False
        groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
        statistics = [g.column(names.index(k)).statistics for g in groups for k in self.key]
        return all(s is not None and s.has_null_count and s.null_count == 0 for s in statistics)

    @property
    def missing_columns(self) -> Mapping[str, int]:
        return self.file_set.missing(self.wanted)

    # ---- values that do not fit -----------------------------------------------------------

    @cached_property
    def _in_nanoseconds(self) -> set[str]:
        return self.file_set.nanosecond_columns(self.wanted)

    @cached_property
    def _doubtful(self) -> set[str]:
        """The columns with dates that may be outside the years 1 to 9999, by the footers."""
        names = list(self.wanted)
        paths = {path for footer in self.file_set.footers for path in outside_years(footer)}
        folders = {f.name for f in filter(unfit.dated, self.schema)} & {
            *self.file_set.folder_columns
        }
        return {top_column(path, names) for path in paths} & {*names} | folders

    @cached_property
    def unfit_columns(self) -> dict[str, str]:
        if self.own:  # proved when it was written
            return {}
        found = dict.fromkeys(self._doubtful, unfit.YEARS)
        found |= dict.fromkeys(self._in_nanoseconds, unfit.WHOLE)
        return {n: f"{kind} in {found[n]}" for n, kind in self.wanted.items() if n in found}

    def _unfit(self, group: ReadTogether) -> list[unfit.UnfitColumn]:
        """Test the columns that footers leave in doubt, on the values as they are in the files."""
        found: list[unfit.UnfitColumn] = []
        for name in self.unfit_columns:
            value, wanted = quoted(name), self.wanted[name]
            kind = group.types.get(name, wanted)
            split = unfit.split_microseconds(value, converted(kind, wanted))
            far = unfit.far_years(widened(value, kind, wanted), wanted)
            tests = [split, far if name in self._doubtful else None]
            if (wrong := unfit.either(tests)) is not None:
                text = unfit.nanosecond_text(value) if kind.name in NANOSECONDS else value
                shown = self.redaction.shown(name, text)
                found.append(unfit.UnfitColumn(name, wrong, shown))
        return found

    # ---- reading --------------------------------------------------------------------------

    @cached_property
    def _groups(self) -> list[ReadTogether]:
        return self.file_set.groups(self.wanted)

    def _read(self, group: ReadTogether) -> DataFrame:
        reader = self.spark.read.options(**self.options)
        if self.files.folders_are_columns:
            reader = reader.option("basePath", self.files.root)
        schema: StructType | str = StructType(nullable(self.schema.fields))
        if not self._as_wanted(group):
            found = {n: converted(kind, self.wanted[n]) for n, kind in group.types.items()}
            types = {n: as_read(found.get(n, kind)) for n, kind in self.wanted.items()}
            schema = ", ".join(f"{quoted(name)} {kind}" for name, kind in types.items())
        return reader.schema(schema).parquet(*(escaped(file.path) for file in group.files))

    def _as_wanted(self, group: ReadTogether) -> bool:
        return all(kind == self.wanted[name] for name, kind in group.types.items())

    def _rows(self, group: ReadTogether, names: Sequence[str], *, numbered: bool) -> DataFrame:
        """Read columns of some files in their wanted types, with file and row if `numbered`."""
        rows = self._read(group)
        hidden: list[Column] = []
        if numbered:
            own = rows.metadataColumn("_metadata")  # a user's column may have the same name
            hidden.append(own.getField("file_path").alias(PATH))
            hidden.append((own.getField("row_index") + 1).alias(ROW))
        tests = unfit.unfit(self._unfit(group))
        if self.unfit_columns and not tests:  # other files have what is tested
            tests = [f"CAST(NULL AS {unfit.KIND}) AS {UNFIT}"]
        found = [*(self._widened(group, name) for name in names), *tests]
        read = rows.select(*map(F.expr, found), *hidden) if hidden else rows.selectExpr(*found)
        return in_few_tasks(read, self.files)

    def _widened(self, group: ReadTogether, name: str) -> str:
        wanted = self.wanted[name]
        value = widened(quoted(name), group.types.get(name, wanted), wanted)
        return f"{value} AS {quoted(name)}"

    def records(self, columns: Sequence[str] | None = None) -> DataFrame:
        names = self.schema.names if columns is None else list(columns)
        numbered = not self.every_record_keyed or self.places is not None
        asked = list(dict.fromkeys([*names, *self.key]))
        found = [self._rows(group, asked, numbered=numbered) for group in self._groups]
        rows = reduce(DataFrame.unionByName, found)
        chosen = [*map(quoted, names), *([UNFIT] if self.unfit_columns else [])]
        if not numbered:
            return rows.selectExpr(*chosen, f"{self.own_key()} AS {KEY}")
        name = lines.relative_name(PATH, self.files.root)
        fallback = f"concat('@', {name}, '#', CAST({ROW} AS STRING))"
        key = f"coalesce({self.own_key()}, {fallback})" if self.key else fallback
        return rows.selectExpr(*chosen, f"{key} AS {KEY}", *placed(self, fallback))

    # ---- the door -------------------------------------------------------------------------

    def at_most(self) -> int:
        return self.file_set.rows

    @cached_property
    def keys_here(self) -> Sequence[str | None] | None:
        """The texts of a key column without NULLs, of a type with one text per value."""
        if len(self.key) != 1 or self.places is not None or self.hides_key:
            return None
        [key] = self.key
        declared = READABLE.get(self.schema[key].dataType.simpleString())
        if declared is None or not self.every_record_keyed or not parquet.few(self.at_most(), KEYS):
            return None
        schemas = (footer.schema.to_arrow_schema() for footer in self.file_set.footers)
        if any(key not in s.names or s.field(key).type != declared for s in schemas):
            return None
        paths = [Path(file.path) for file in self.files.files]
        try:
            read = parquet.batches(paths, [key])
            return [text for batch in read for text in texts(batch[key])]
        except NoSparkText:
            return None

    def measured(self) -> Door:
        keys = self.keys_here
        found = digest.of_keys(self.keys(), KEY) if keys is None else digest_of(keys)
        # Two independent witnesses: the footers count the rows, the scan digests the keys.
        counted = self.at_most()
        nulls = 0
        if self.key and not self.every_record_keyed:
            nulls = self.keys().where(lines.is_place(KEY)).count()
        return Door(replace(found, count=counted), nulls or (0 if self.key else counted))


def as_read(found: ColumnType) -> ColumnType:
    """Return the type in which Spark reads a file's column: counts are numbers to it."""
    inside = tuple((name, as_read(kind)) for name, kind in found.inside)
    name = "bigint" if found.name in COUNTS else found.name
    return ColumnType("int" if name == NOTHING else name, inside)


def widened(value: str, found: ColumnType, wanted: ColumnType) -> str:
    """Write in SQL a value, and the values inside it, in the wanted type; a field that the file
    lacks is NULL.
    """
    if found == wanted:
        return value
    if found.name == NOTHING:
        return _null(wanted)
    if found.name in NANOSECONDS and wanted.name != "bigint":
        whole = f"CASE WHEN {value} % 1000 = 0 THEN 1000 END"
        # Spark counts NTZ timestamps in the session's time zone, which is UTC.
        return f"CAST(timestamp_micros({value} div {whole}) AS {wanted.name})"
    if wanted.name == "struct" and found.inside:
        there = found.fields
        fields = {
            name: widened(f"{value}.{quoted(name)}", there[name], kind)
            if name in there
            else _null(kind)
            for name, kind in wanted.inside
        }
        listed = ", ".join(f"{literal(name)}, {field}" for name, field in fields.items())
        return f"CASE WHEN {value} IS NOT NULL THEN named_struct({listed}) END"
    if wanted.name == "array" and found.inside:
        [(_, own)], [(_, other)] = found.inside, wanted.inside
        return f"transform({value}, {ELEMENT} -> {widened(ELEMENT, own, other)})"
    if wanted.name == "map" and found.inside:
        return _widened_map(value, found.fields, wanted.fields)
    return f"CAST({value} AS {wanted})"


def _null(kind: ColumnType) -> str:
    return f"CAST(NULL AS {kind})"


def _widened_map(value: str, found: dict[str, ColumnType], wanted: dict[str, ColumnType]) -> str:
    if found["key"] != wanted["key"]:
        key = widened("_tm_k", found["key"], wanted["key"])
        value = f"transform_keys({value}, (_tm_k, _tm_v) -> {key})"
    if found["value"] != wanted["value"]:
        each = widened("_tm_v", found["value"], wanted["value"])
        value = f"transform_values({value}, (_tm_k, _tm_v) -> {each})"
    return value
