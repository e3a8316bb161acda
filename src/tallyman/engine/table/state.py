"""Tables while they are being changed: in DuckDB, in memory, with every rule checked at once.

Each row carries the place of its fragment, or -1 if it is new or changed. So it is known at the end
which fragments are unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

from tallyman.domain.version.table import Column, Reference, Table
from tallyman.engine.files.duck import connect, duck_type, quoted
from tallyman.engine.table.file import lacks_columns, read_files, write_file
from tallyman.engine.table.rules import holds, miscount, miscounted, named, shown
from tallyman.engine.table.values import arrow_schema
from tallyman.errors import KeyConflict, MutationRefused

MOST_FRAGMENTS = 32
"""The largest number of fragments; a table with more is rewritten as one, because a reader opens
every fragment.
"""

NEW = -1
FRAGMENT = '"_tm_fragment"'
ROW = '"_tm_row"'
GIVEN = "_tm_given"
"""The rows that a statement or a load brings, with all columns and row numbers."""

_SAMPLES = 5
_BATCH = 131_072
_OPENING: dict[str, bool | float | int | list[str] | str] = {
    "threads": 2,
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


@dataclass(frozen=True, slots=True)
class Held:
    """A table at the version that was read."""

    table: Table
    fragments: Mapping[UUID, tuple[str, ...]]

    @property
    def is_full(self) -> bool:
        """True if the whole table is rewritten even if rows are only added."""
        return len(self.fragments) >= MOST_FRAGMENTS or self.is_outdated

    @property
    def is_outdated(self) -> bool:
        """True if columns were declared since its files were written."""
        first = [paths[0] for paths in self.fragments.values() if paths]
        return any([lacks_columns(path, self.table) for path in first])  # noqa: C419  check all of them


@dataclass(frozen=True, slots=True)
class Changed:
    """The change of a table. Numbers of rows are summed over the statements."""

    removed: frozenset[UUID]
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    files: tuple[Path, ...]
    rows_written: int


@dataclass(slots=True)
class TableChange:
    """The change of one table so far: touched fragments by place, rows by kind."""

    touched: set[int] = field(default_factory=set)
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def is_any(self) -> bool:
        return self.inserted + self.updated + self.deleted > 0


class TableState:
    """The tables in DuckDB. All columns of tables in `whole` are read, of the others only keys and
    references. `statement` is the number that errors name.
    """

    def __init__(self, held: Mapping[str, Held], whole: Collection[str]) -> None:
        self.held = held
        self.whole = frozenset(whole)
        self.changes = {name: TableChange() for name in held}
        self.statement: int | None = None
        self._names = {name: f"_tm_table_{place}" for place, name in enumerate(held)}
        self.connection = connect(_OPENING)

    def __enter__(self) -> TableState:
        self.ask("SET TimeZone = 'UTC'")
        for name in self.held:
            self._open(name)
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def lock(self) -> None:
        """Cut off files and the network: from here on no statement can reach them."""
        self.ask("SET enable_external_access = false; SET lock_configuration = true")

    def name(self, dataset: str) -> str:
        return self._names[dataset]

    def table(self, dataset: str) -> Table:
        return self.held[dataset].table

    def _open(self, dataset: str) -> None:
        table, schema = self.table(dataset), arrow_schema(self.table(dataset))
        bound = {*table.key, *(reference.column for reference in table.references)}
        columns = [n for n in table.names if dataset in self.whole or n in bound]
        tables: list[pa.Table] = []
        # NEW stands for no fragment: even a table without any has a part, with its columns.
        for place, paths in [(NEW, ()), *enumerate(self.held[dataset].fragments.values())]:
            rows = read_files(paths, schema, columns)
            places = pa.repeat(pa.scalar(place, pa.int32()), rows.num_rows)
            tables.append(rows.append_column("_tm_fragment", places))
        self.connection.register("_tm_read", pa.concat_tables(tables))
        listed = ", ".join(
            column_or_null(column, column.name in columns) for column in table.columns
        )
        self.ask(f"CREATE TABLE {self.name(dataset)} AS SELECT {listed}, {FRAGMENT} FROM _tm_read")
        self.connection.unregister("_tm_read")

    def insert(self, dataset: str) -> None:
        """Add the given rows; KeyConflict if one of their keys exists."""
        table, own = self.table(dataset), self.name(dataset)
        self.check_given(dataset)
        keys = _listed(table.key)
        count, samples = self._found(
            f"SELECT {keys} FROM {GIVEN} SEMI JOIN {own} USING ({keys})", table.key
        )
        if count:
            raise KeyConflict(dataset, count, samples, self.statement)
        rows = self.add(dataset, f"SELECT {_listed(table.names)}, {NEW} FROM {GIVEN}")
        self.changes[dataset].inserted += rows
        self.check_references(dataset, GIVEN)

    def add(self, dataset: str, query: str) -> int:
        """Insert the result of a query; return the number of rows."""
        return int(self.ask(f"INSERT INTO {self.name(dataset)} {query}")[0][0])

    def touch(self, dataset: str, chosen: str, values: Sequence[object] = ()) -> int:
        """Note the fragments of the rows that are about to change; return the number of rows.

        `chosen` is the rest of a query after SELECT …
        """
        found = self.ask(f"SELECT {FRAGMENT}, count(*) {chosen} GROUP BY ALL", values)
        self.changes[dataset].touched |= {place for place, _ in found if place != NEW}
        return sum(rows for _, rows in found)

    def check_given(self, dataset: str) -> None:
        """Check that required columns have no NULL and that no key occurs twice."""
        table = self.table(dataset)
        required = [column.name for column in table.columns if not column.nullable]
        nulls = " OR ".join(f"{quoted(name)} IS NULL" for name in required)
        listed = ", ".join(f"{quoted(name)} IS NULL" for name in required)
        count, found = self.rows(f"SELECT {ROW}, {listed} FROM {GIVEN} WHERE {nulls}")
        if count:
            samples = [
                f"row {row}: {', '.join(compress(required, flags))} is NULL"
                for row, *flags in found
            ]
            raise self.refused(dataset, "not_null", count, samples)
        self.check_key(dataset, GIVEN)
        self.check_rules(dataset, GIVEN)

    def check_rules(self, dataset: str, rows: str, columns: Collection[str] = ()) -> None:
        """Check the values of `rows`: all rules, or those of `columns`. Given rows are named by
        their number, others by their key.
        """
        table = self.table(dataset)
        for rule in table.rules:
            if columns and rule.column not in columns:
                continue
            column = quoted(rule.column)
            broken = f"{column} IS NOT NULL AND NOT ({holds(rule, table.column(rule.column))})"
            names = [ROW] if rows == GIVEN else [quoted(name) for name in table.key]
            query = f"SELECT {', '.join(names)}, {column} FROM {rows} WHERE {broken}"
            count, found = self.rows(query)
            if count:
                labels = ["row"] if rows == GIVEN else [f"{name} =" for name in table.key]
                samples = [
                    f"{named(labels, row[:-1])}: {rule.column} = {shown(row[-1])} is not {rule}"
                    for row in found
                ]
                raise self.refused(dataset, f"the rule of {rule.column}", count, samples)

    def check_counts(self) -> None:
        """Check how many rows refer to each key, once all changes are made."""
        for name, held in self.held.items():
            for reference in held.table.references:
                changed = self.changes[name].is_any or (
                    reference.table in self.held and self.changes[reference.table].is_any
                )
                if changed and reference.counts:
                    keys = self.name(reference.table) if reference.table in self.held else None
                    count, found = self.rows(miscounted(self.name(name), keys, reference))
                    if count:
                        samples = [miscount(name, reference, *row) for row in found]
                        raise self.refused(
                            name, f"the number of {reference.column}", count, samples
                        )

    def check_key(self, dataset: str, rows: str) -> None:
        keys = self.table(dataset).key
        count, samples = self._found(
            f"SELECT {_listed(keys)} FROM {rows} GROUP BY ALL HAVING count(*) > 1", keys
        )
        if count:
            raise self.refused(dataset, "key", count, [f"{each} twice" for each in samples])

    def check_references(self, dataset: str, rows: str, columns: Collection[str] = ()) -> None:
        """Check that what `rows` of the dataset refer to exists; all references, or those of
        `columns`.
        """
        for reference in self.table(dataset).references:
            if not columns or reference.column in columns:
                count, samples = self._dangling(rows, reference)
                if count:
                    missing = [f"{s} is not in {reference.table}.{reference.to}" for s in samples]
                    raise self.refused(dataset, "reference", count, missing)

    def check_referrers(self, dataset: str) -> None:
        """Check that no row of any table refers to a key that the dataset no longer has."""
        for name, held in self.held.items():
            for reference in held.table.references:
                if reference.table == dataset:
                    count, samples = self._dangling(self.name(name), reference)
                    if count:
                        still = [f"{name}.{sample} still refers to it" for sample in samples]
                        raise self.refused(dataset, "reference", count, still)

    def _dangling(self, rows: str, reference: Reference) -> tuple[int, list[str]]:
        column, to = quoted(reference.column), quoted(reference.to)
        return self._found(
            f"SELECT a.{column} FROM {rows} a ANTI JOIN {self.name(reference.table)} b "
            f"ON a.{column} = b.{to} WHERE a.{column} IS NOT NULL",
            (reference.column,),
        )

    def refused(
        self, dataset: str, rule: str, count: int, samples: Sequence[str]
    ) -> MutationRefused:
        return MutationRefused(dataset, rule, count, samples[:_SAMPLES], self.statement)

    def unknown_columns(self, dataset: str, names: Sequence[str]) -> MutationRefused:
        table = self.table(dataset)
        near = {name: table.nearest(name) for name in names}
        samples = [
            f"{name!r}" + (f" (did you mean {known!r}?)" if known else "")
            for name, known in near.items()
        ]
        return self.refused(dataset, "unknown_column", len(names), samples)

    def rows(self, query: str) -> tuple[int, list[tuple[object, ...]]]:
        """Count the rows that the query finds, and return the first few of them."""
        found = self.ask(f"SELECT count(*) OVER (), * FROM ({query}) ORDER BY ALL LIMIT {_SAMPLES}")
        return (found[0][0] if found else 0), [tuple(row[1:]) for row in found]

    def _found(self, query: str, names: Sequence[str]) -> tuple[int, list[str]]:
        count, rows = self.rows(query)
        pairs = [zip(names, row, strict=True) for row in rows]
        return count, [", ".join(f"{n} = {shown(value)}" for n, value in row) for row in pairs]

    def ask(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a query and read all rows: DuckDB accepts no other query before that."""
        return self.connection.execute(query, list(values)).fetchall()

    def written(self, dataset: str, folder: Path) -> Changed:
        """Write the new files of a changed table, and list what they replace."""
        fragments, change = list(self.held[dataset].fragments), self.changes[dataset]
        removed = set(change.touched)
        rows = self._rows_in(dataset, removed)
        pieces = len(fragments) - len(removed) + (rows > 0)
        if pieces > MOST_FRAGMENTS or self.held[dataset].is_outdated:
            removed = set(range(len(fragments)))
            rows = self._rows_in(dataset, removed)
        files: tuple[Path, ...] = ()
        if rows or len(removed) == len(fragments):  # a table without rows still has a file
            files = (self._write(dataset, folder, removed),)
        return Changed(
            removed=frozenset(fragments[place] for place in removed),
            rows_inserted=change.inserted,
            rows_updated=change.updated,
            rows_deleted=change.deleted,
            files=files,
            rows_written=rows,
        )

    def _rows_in(self, dataset: str, removed: Collection[int]) -> int:
        return int(self.ask(_replaced("count(*)", self.name(dataset), removed))[0][0])

    def _write(self, dataset: str, folder: Path, removed: Collection[int]) -> Path:
        table = self.table(dataset)
        query = _replaced(_listed(table.names), self.name(dataset), removed)
        reader = self.connection.sql(query).to_arrow_reader(_BATCH)
        return write_file(folder, arrow_schema(table), reader)


def _replaced(what: str, table: str, removed: Collection[int]) -> str:
    places = ", ".join(str(place) for place in sorted({NEW, *removed}))
    return f"SELECT {what} FROM {table} WHERE {FRAGMENT} IN ({places})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in names)


def column_or_null(column: Column, is_read: bool) -> str:
    value = quoted(column.name) if is_read else "NULL"
    return f"CAST({value} AS {duck_type(column.type)}) AS {quoted(column.name)}"
