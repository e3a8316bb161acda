"""Difference between two versions of a dataset, row by row.

Rows are matched by the key of the dataset. If the key does not identify rows, whole rows are
compared, as EXCEPT ALL does. Everything is SQL in DuckDB with limited memory; only samples reach
Python.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, get_args

import duckdb
from duckdb.sqltypes import DuckDBPyType

from tallyman.engine.files.duck import connect
from tallyman.engine.files.duck import text as literal
from tallyman.errors import DatasetDamaged
from tallyman.errors.wording import first_line
from tallyman.query.diff.columns import forms, shown

SYSTEM = "_tm"
"""The engine's own column in output files: it says where a row came from, and is not compared."""

MEMORY = "1GB"
"""DuckDB's memory limit; it spills to a temporary folder."""

THREADS = 4
GLOB = frozenset("*?[")

Kind = Literal["added", "removed", "changed"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRow:
    """One differing row, with instants as text and all other values as Python values."""

    kind: Kind
    key: Mapping[str, Any]
    """Empty if whole rows were compared."""

    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    columns: tuple[str, ...] = ()
    """The columns in which a changed row differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The changes from one version to the other."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    unchanged: int = 0
    """Unchanged rows in the compared files; files that both versions share are not read."""

    columns_added: tuple[str, ...] = ()
    columns_removed: tuple[str, ...] = ()
    columns_retyped: tuple[str, ...] = ()
    changed_by_column: Mapping[str, int] = field(default_factory=dict)
    """The number of changed rows that differ in each column, without zeros."""

    by_key: bool
    """False if there is no usable key: whole rows were compared as multisets, and none is
    `changed`."""

    rows: tuple[DiffRow, ...] = ()
    """The first rows, in the order of the key or of all columns."""

    def to_json(self) -> dict[str, Any]:
        return {
            "added": self.added,
            "removed": self.removed,
            "changed": self.changed,
            "by_key": self.by_key,
            "columns_added": self.columns_added,
            "columns_removed": self.columns_removed,
            "columns_retyped": self.columns_retyped,
            "changed_by_column": dict(self.changed_by_column),
            "rows": json.loads(json.dumps([asdict(row) for row in self.rows], default=str)),
        }


def diff(
    before: Sequence[str], after: Sequence[str], *, key: Sequence[str], limit: int = 20
) -> Difference:
    """Compare the rows of two sets of Parquet files, given by absolute paths.

    Leave out the files that both versions have. A side without files has no rows, and the columns
    of the other side. Rows are compared in the columns that both sides have: a new column alone
    changes no row. Column names are case-sensitive. `columns.forms` decides which values are equal,
    also in retyped columns. The key is usable if both sides have all its columns, without NULLs or
    repetitions.

    Raises duckdb.Error if a file cannot be read.
    """
    if not before and not after:
        return Difference(by_key=bool(key))
    with _database() as (connection, folder):
        sides = (
            _Side(connection, "before", before or after, folder),
            _Side(connection, "after", after or before, folder),
        )
        comparison = _Comparison(connection, sides, key)
        comparison.define(empty=(not before, not after))
        return comparison.summary(limit=max(0, int(limit)))


def difference_facts(
    before: Sequence[str], after: Sequence[str], key: Sequence[str], limit: int
) -> dict[str, Any]:
    """Compare files that belong to no version, in the form of `tallyman diff --json`."""
    try:
        return diff(before, after, key=key, limit=limit).to_json()
    except duckdb.Error as error:
        raise DatasetDamaged("output", first_line(error)) from error


class _Side:
    """The files of one version and their columns."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, name: str, files: Sequence[str], folder: Path
    ) -> None:
        self.name = name
        listed = ", ".join(literal(_unglobbed(file, folder)) for file in files)
        self.source = f"read_parquet([{listed}], union_by_name=true, hive_partitioning=false)"
        described = connection.sql(f"SELECT * FROM {self.source}")
        found = zip(described.columns, described.types, strict=True)
        self.columns: dict[str, DuckDBPyType] = {n: t for n, t in found if n != SYSTEM}


@dataclass(frozen=True, slots=True)
class _Differing:
    """The table `differing`: the columns that identify a row, its kind, and its number of
    copies."""

    match: Sequence[str]
    flags: Mapping[str, str]
    """Flag columns of a changed row, each with the column it is about."""

    key: Sequence[str]


class _Comparison:
    """A comparison: two views with a form f0, f1, … of each shared column, and the values s0, s1, …
    to show."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        sides: tuple[_Side, _Side],
        key: Sequence[str],
    ) -> None:
        self.connection = connection
        self.sides = self.before, self.after = sides
        self.shared = [name for name in self.after.columns if name in self.before.columns]
        self.key = tuple(key)

    def define(self, empty: tuple[bool, bool]) -> None:
        old, new = self.before.columns, self.after.columns
        for number, (side, nothing) in enumerate(zip(self.sides, empty, strict=True)):
            columns = [
                f"{forms(name, old[name], new[name])[number]} AS f{n}"
                for n, name in enumerate(self.shared)
            ]
            columns += [f"{shown(c, side.columns[c])} AS s{n}" for n, c in enumerate(side.columns)]
            if not self.shared:  # so that no rows of the two sides are equal
                columns.append(f"{number} AS f0")
            self.connection.execute(
                f"CREATE TEMP VIEW {side.name} AS SELECT {', '.join(columns)} "
                f"FROM {side.source} WHERE {not nothing}"
            )

    def summary(self, limit: int) -> Difference:
        by_key = self._key_is_usable()
        differing = self._by_key() if by_key else self._by_row()
        kinds = [f"coalesce(sum(copies) FILTER (kind = '{kind}'), 0)" for kind in KINDS]
        flags = [f"count(*) FILTER (kind = 'changed' AND {flag})" for flag in differing.flags]
        counts = self._all(f"SELECT {', '.join(kinds + flags)} FROM differing")[0]
        added, removed, changed, *each = (int(count) for count in counts)
        total = self._all("SELECT count(*) FROM before")[0][0]
        old, new = self.before.columns, self.after.columns
        return Difference(
            added=added,
            removed=removed,
            changed=changed,
            unchanged=total - removed - changed,
            columns_added=tuple(name for name in new if name not in old),
            columns_removed=tuple(name for name in old if name not in new),
            columns_retyped=tuple(n for n in self.shared if str(old[n]) != str(new[n])),
            changed_by_column={
                c: n for c, n in zip(differing.flags.values(), each, strict=True) if n
            },
            by_key=by_key,
            rows=tuple(self._samples(differing, limit))[:limit],
        )

    def _key_is_usable(self) -> bool:
        if not self.key or not set(self.key) <= set(self.shared):
            return False
        gap = " OR ".join(f"{form} IS NULL" for form in self._key_forms())
        bad = f"GROUP BY {', '.join(self._key_forms())} HAVING count(*) > 1 OR {gap} LIMIT 1"
        return not any(self._all(f"SELECT 1 FROM {side.name} {bad}") for side in self.sides)

    def _by_key(self) -> _Differing:
        key = self._key_forms()
        compared = {f"f{n}": c for n, c in enumerate(self.shared) if c not in self.key}
        flags = "".join(f", b.{f} IS DISTINCT FROM a.{f} AS is_{f}" for f in compared)
        either = "".join(f" OR is_{f}" for f in compared)
        gone, new = f"a.{key[0]} IS NULL", f"b.{key[0]} IS NULL"  # a usable key is never NULL
        self.connection.execute(
            f"CREATE TEMP TABLE differing AS "
            f"SELECT {', '.join(f'coalesce(a.{f}, b.{f}) AS {f}' for f in key)}, 1 AS copies, "
            f"CASE WHEN {gone} THEN 'removed' WHEN {new} THEN 'added' ELSE 'changed' END AS kind"
            f"{flags} FROM before b FULL JOIN after a "
            f"ON {' AND '.join(f'a.{f} = b.{f}' for f in key)} WHERE {gone} OR {new}{either}"
        )
        return _Differing(key, {f"is_{f}": c for f, c in compared.items()}, self.key)

    def _by_row(self) -> _Differing:
        everything = [f"f{n}" for n in range(len(self.shared) or 1)]
        listed = ", ".join(everything)
        self.connection.execute(
            f"CREATE TEMP TABLE differing AS SELECT {listed}, abs(sum(sign)) AS copies, "
            f"if(sum(sign) > 0, 'added', 'removed') AS kind "
            f"FROM (SELECT {listed}, 1 AS sign FROM after "
            f"UNION ALL SELECT {listed}, -1 AS sign FROM before) "
            f"GROUP BY {listed} HAVING sum(sign) <> 0"
        )
        return _Differing(everything, {}, ())

    def _samples(self, differing: _Differing, limit: int) -> Iterator[DiffRow]:
        """Yield the first differing rows, each looked up on the sides that have it."""
        order = ", ".join(differing.match)
        self.connection.execute(
            f"CREATE TEMP TABLE picked AS SELECT *, row_number() OVER (ORDER BY {order}) AS place "
            f"FROM (SELECT * FROM differing ORDER BY {order} LIMIT {limit})"
        )
        old = self._looked_up(self.before, differing.match, "added", limit)
        new = self._looked_up(self.after, differing.match, "removed", limit)
        listed = ", ".join(["place", "kind", *differing.flags])
        for place, kind, *flags in self._all(f"SELECT {listed} FROM picked ORDER BY place"):
            differs = zip(differing.flags.values(), flags, strict=True)
            columns = tuple(name for name, flag in differs if flag and kind == "changed")
            for before, after in zip_longest(old.get(place, []), new.get(place, [])):
                key = {name: (after or before)[name] for name in differing.key}
                yield DiffRow(kind=kind, key=key, before=before, after=after, columns=columns)

    def _looked_up(
        self, side: _Side, match: Sequence[str], absent: Kind, limit: int
    ) -> dict[int, list[dict[str, Any]]]:
        """Return rows by their place among the picked ones."""
        same = " AND ".join(f"v.{f} IS NOT DISTINCT FROM p.{f}" for f in match)
        values = "".join(f", v.s{n}" for n in range(len(side.columns)))
        rows = self._all(
            f"SELECT p.place{values} FROM {side.name} v JOIN picked p "
            f"ON {same} AND p.kind <> '{absent}' "
            f"QUALIFY row_number() OVER (PARTITION BY p.place) <= least(p.copies, {limit})"
        )
        found: dict[int, list[dict[str, Any]]] = {}
        for place, *row in rows:
            found.setdefault(place, []).append(dict(zip(side.columns, row, strict=True)))
        return found

    def _key_forms(self) -> list[str]:
        return [f"f{self.shared.index(name)}" for name in self.key]

    def _all(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()


@contextmanager
def _database() -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """Open DuckDB with a memory limit, without network access, and with a folder to spill to."""
    with tempfile.TemporaryDirectory(prefix="tallyman-diff-") as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "threads": min(THREADS, os.cpu_count() or 1),
            "temp_directory": folder,
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
        }
        with connect(config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection, Path(folder)


def _unglobbed(path: str, folder: Path) -> str:
    """Return a path that DuckDB takes literally. DuckDB cannot escape a glob that contains a
    backslash, so such a file gets a link with a plain name."""
    if not GLOB & set(path):
        return path
    link = folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()}.parquet"
    if not link.is_symlink():
        link.symlink_to(path)
    return str(link)
