"""The Parquet files of one input, read as one: a rule for files with different columns.

A declared schema wins; without one, the columns are those of all files, in the order of the files.
A column that a file lacks is NULL in its rows, and counted. A narrower type widens if no value can
change. Anything else is a mistake that names file and column. Only footers are read here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from tallyman.engine.files.listing import InputFile, InputFiles
from tallyman.engine.files.parquet_types import (
    DURATION,
    EXACT,
    NANOSECONDS,
    NOTHING,
    PARQUET_HAS,
    ColumnType,
    common,
    converted,
    lacking,
    of_footer,
    of_spark,
    resolved,
    widens,
)
from tallyman.errors import InputUnreadable
from tallyman.errors.wording import first_line

SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
READERS = 8
"""The number of footers that are read at once."""


def footers(files: InputFiles) -> list[pq.FileMetaData]:
    """Read the footer of every file; InputUnreadable names the first that is not Parquet."""

    def read(file: InputFile) -> pq.FileMetaData:
        try:
            return pq.read_metadata(file.path)
        except (pa.ArrowException, OSError) as error:
            raise InputUnreadable(files.input, file.name, first_line(error)) from None

    if len(files.files) < READERS:
        return [read(file) for file in files.files]
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(read, files.files))


@dataclass(frozen=True, slots=True)
class Misfit:
    """A column of a file that cannot be read as wanted, and why."""

    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Shape:
    """Files with equal columns, by their numbers in the set."""

    types: Mapping[str, ColumnType]
    files: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReadTogether:
    """Files that Spark reads with one schema, in the types that the files have."""

    types: dict[str, ColumnType]
    files: list[InputFile]


@dataclass(frozen=True)
class ParquetSet:
    files: InputFiles

    @cached_property
    def footers(self) -> list[pq.FileMetaData]:
        return footers(self.files)

    @property
    def rows(self) -> int:
        return sum(footer.num_rows for footer in self.footers)

    @cached_property
    def _shapes(self) -> list[_Shape]:
        found: dict[str, _Shape] = {}
        for number, footer in enumerate(self.footers):
            said = _said_by_spark(footer)
            own = f"{said}{footer.schema}{footer.schema.to_arrow_schema().remove_metadata()}"
            if own not in found:
                found[own] = _Shape(_types(footer, said))
            found[own].files.append(number)
        return list(found.values())

    def spark_schema(self) -> str | None:
        """Return the schema that Spark wrote into every footer, if there is one and it is true."""
        said = {_said_by_spark(footer) for footer in self.footers}
        only = said.pop() if len(said) == 1 else None
        if only is None or any(shape.types != _of_json(only) for shape in self._shapes):
            return None
        return only

    @property
    def folder_columns(self) -> tuple[str, ...]:
        """The columns that `name=value` folders stand for; those of the first file."""
        return _folder_columns(self.files.files[0]) if self.files.folders_are_columns else ()

    # ---- the columns of all files ---------------------------------------------------------

    def union(self) -> tuple[dict[str, ColumnType], list[Misfit]]:
        """Merge the columns of all files, and list those that cannot be merged."""
        merged: dict[str, tuple[ColumnType, str]] = {}
        problems: dict[str, Misfit] = {}
        for shape in self._shapes:
            file = self._name(shape)
            for name in shape.types:
                if (near := _same_but_case(name, merged)) and near not in problems:
                    said = f"{merged[near][1]!r} has a column {near!r}, {file!r} has {name!r}"
                    problems[near] = Misfit(near, f"{said}: rename one, the names must be equal")
                before, where = merged.get(name, (ColumnType(NOTHING), file))
                own = self._type(shape, name, before)
                kind = common(self._widened(before, own, name), own)
                if not own.readable or own.any((DURATION,)):
                    advice = "declare a schema without it"
                    if own.name == DURATION:
                        advice = "declare a schema with bigint to read its counts"
                    said = f"{file!r} holds {own}, which Spark does not have; {advice}"
                    problems.setdefault(name, Misfit(name, said))
                elif kind is None:
                    said = f"{where!r} holds {resolved(before)}, {file!r} holds {resolved(own)}"
                    problems.setdefault(name, Misfit(name, f"{said}, and no type holds both"))
                merged[name] = (kind or before, where if kind in (None, before) else file)
        for name, (kind, file) in merged.items():
            if kind.any((NOTHING,)):
                said = f"has no value in any file (first {file!r}): declare a schema with its type"
                problems.setdefault(name, Misfit(name, said))
        return {name: resolved(kind) for name, (kind, _) in merged.items()}, list(problems.values())

    def _widened(self, before: ColumnType, own: ColumnType, name: str) -> ColumnType:
        """Look at the values of earlier files, if a bigint meets its first double."""
        if (before.name, own.name) != ("bigint", "double"):
            return before
        earlier = (s for s in self._shapes if name in s.types and s.types[name].name == "bigint")
        return replace(before, exact=all(self._exact(shape, name) for shape in earlier))

    def _type(self, shape: _Shape, name: str, wanted: ColumnType) -> ColumnType:
        found = shape.types[name]
        if (found.name, wanted.name) != ("bigint", "double"):
            return found
        return replace(found, exact=self._exact(shape, name))

    def _exact(self, shape: _Shape, name: str) -> bool:
        return all(_within(self.footers[n], name, -EXACT, EXACT) for n in shape.files)

    def _name(self, shape: _Shape) -> str:
        return self.files.files[shape.files[0]].name

    # ---- the columns that are wanted ------------------------------------------------------

    def misfits(self, wanted: Mapping[str, ColumnType]) -> list[Misfit]:
        """List the wanted columns that some file has in a type that does not widen."""
        found: dict[str, Misfit] = {}
        for shape in self._shapes:
            file = self._name(shape)
            for name in wanted:
                if name in found or name in self.folder_columns:
                    continue
                if near := _same_but_case(name, shape.types):
                    said = f"is called {near!r} in {file!r}; the names must be equal"
                    found[name] = Misfit(name, said)
                elif name in shape.types:
                    own = self._type(shape, name, wanted[name])
                    if not widens(own, wanted[name]):
                        said = f"is declared {wanted[name]}, the files hold {own}"
                        found[name] = Misfit(name, f"{said} (in {file!r})")
        return list(found.values())

    def columns(self) -> list[str]:
        """Name the columns that any file has."""
        return list(dict.fromkeys(name for shape in self._shapes for name in shape.types))

    def missing(self, wanted: Mapping[str, ColumnType]) -> dict[str, int]:
        """Count the rows of files without a column, by column."""
        found: dict[str, int] = {}
        for shape in self._shapes:
            rows = sum(self.footers[number].num_rows for number in shape.files)
            for name, kind in wanted.items():
                if name in self.folder_columns or not rows:
                    continue
                own = shape.types.get(name)
                for path in [name] if own is None else lacking(own, kind, name):
                    found[path] = found.get(path, 0) + rows
        return found

    def groups(self, wanted: Collection[str]) -> list[ReadTogether]:
        """Split the files so that no column of a group has two types."""
        found: list[ReadTogether] = []
        for shape in self._shapes:
            skipped = self.folder_columns
            own = {n: k for n, k in shape.types.items() if n in wanted and n not in skipped}
            files = [self.files.files[number] for number in shape.files]
            for group in found:
                if all(group.types.get(name, kind) == kind for name, kind in own.items()):
                    group.types.update(own)
                    group.files.extend(files)
                    break
            else:
                found.append(ReadTogether(own, files))
        return found

    def nanosecond_columns(self, wanted: Mapping[str, ColumnType]) -> set[str]:
        """Name the wanted timestamps that some file holds in nanoseconds."""
        return {
            name
            for shape in self._shapes
            for name, kind in shape.types.items()
            if name in wanted and converted(kind, wanted[name]).any(NANOSECONDS)
        }

    def mixed_folders(self) -> tuple[str, str] | None:
        """Name two files whose folders stand for different columns, if there are any."""
        first = self.files.files[0]
        if not self.files.folders_are_columns:
            return None
        for file in self.files.files:
            if _folder_columns(file) != _folder_columns(first):
                return first.name, file.name
        return None


def _folder_columns(file: InputFile) -> tuple[str, ...]:
    folders = os.path.dirname(file.name).split("/")
    return tuple(folder.partition("=")[0] for folder in folders if "=" in folder)


def _said_by_spark(footer: pq.FileMetaData) -> str | None:
    said = (footer.metadata or {}).get(SPARK_SCHEMA)
    return None if said is None else said.decode()


def _in_parquet(kind: ColumnType) -> bool:
    """True if a Parquet schema alone shows the type."""
    known = kind.name in PARQUET_HAS or kind.name.startswith("decimal(")
    return known and all(_in_parquet(each) for _, each in kind.inside)


def _of_json(said: str) -> dict[str, ColumnType]:
    return of_spark(json.loads(said)).fields


def _types(footer: pq.FileMetaData, said: str | None) -> dict[str, ColumnType]:
    """Read a file's types. Spark's own note is believed only about types that Parquet does not
    have: other programs copy it to files with other columns.
    """
    found, noted = of_footer(footer), _of_json(said) if said is not None else {}
    special = {name: kind for name, kind in noted.items() if not _in_parquet(kind)}
    return {name: special.get(name, kind) for name, kind in found.items()}


def _same_but_case(name: str, names: Mapping[str, object]) -> str | None:
    """Find a name that Spark, which ignores case, would take for this one."""
    return next((n for n in names if n != name and n.lower() == name.lower()), None)


# ---- ranges that footers prove --------------------------------------------------------------


def _chunks(footer: pq.FileMetaData, number: int) -> Iterator[pq.ColumnChunkMetaData]:
    return (footer.row_group(group).column(number) for group in range(footer.num_row_groups))


def _within(footer: pq.FileMetaData, name: str, least: int, most: int) -> bool:
    """True if the statistics show that every value of a plain column lies in the range."""
    schema = footer.schema
    numbers = [n for n in range(footer.num_columns) if schema.column(n).path == name]
    return len(numbers) == 1 and all(_in(c, least, most) for c in _chunks(footer, numbers[0]))


def _in(chunk: pq.ColumnChunkMetaData, least: int, most: int) -> bool:
    found = chunk.statistics
    if found is None:
        return chunk.num_values == 0
    if not found.has_min_max:
        return found.has_null_count and found.null_count == chunk.num_values
    return least <= found.min_raw and found.max_raw <= most


FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970."""
_A_DAY = 86_400
_UNITS = {"milliseconds": 1_000, "microseconds": 1_000_000}


def outside_years(footer: pq.FileMetaData) -> Iterator[str]:
    """Yield the paths of dates and timestamps that may have years outside 1 to 9999."""
    schema = footer.schema
    for number in range(footer.num_columns):
        column = schema.column(number)
        if column.physical_type == "INT96" or (
            (known := _years(column)) and not all(_in(c, *known) for c in _chunks(footer, number))
        ):
            yield column.path


def _years(column: pq.ColumnSchema) -> tuple[int, int] | None:
    """Return the first and last value that a column may have, if it holds dates or timestamps."""
    kind = json.loads(column.logical_type.to_json()) if column.logical_type else {}
    if kind.get("Type") == "Date":
        return FIRST_DAY, LAST_DAY
    if kind.get("Type") != "Timestamp" or kind.get("timeUnit") not in _UNITS:
        return None  # 64 bits of nanoseconds end in 2262
    per_second = _UNITS[kind["timeUnit"]]
    return FIRST_DAY * _A_DAY * per_second, (LAST_DAY + 1) * _A_DAY * per_second - 1


def top_column(path: str, names: Sequence[str]) -> str:
    """Name the column that a path in a footer belongs to."""
    inside = [name for name in names if path == name or path.startswith(f"{name}.")]
    return max(inside, key=len, default=path)
