"""The DuckDB connection of one walk: keys and rows stay in its tables, however many there are."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import duckdb

from tallyman.domain.account.redaction import BEGINS, LENGTH
from tallyman.engine.files.duck import connect, dicts, text
from tallyman.errors import DatasetDamaged
from tallyman.errors.wording import first_line

ROW_NUMBER = "file_row_number"
"""DuckDB's column with the number of a row in its file; it cannot be renamed."""
HIDDEN = "tm_hidden"
"""A macro: what a run wrote in place of a redacted text."""


class DuckSession:
    def __init__(self, secret: str = "") -> None:
        """Connect. `secret` is the project's key for redacted values."""
        self.connection = connect()
        keyed_hash = f"sha256({text(f'{secret}|')} || t)"
        self.connection.execute(
            f"CREATE MACRO {HIDDEN}(t) AS {text(BEGINS)} || substring({keyed_hash}, 1, {LENGTH})"
        )
        # Use the time zone of the runs, so that a timestamp has the same text here and there.
        self.connection.execute("SET TimeZone = 'UTC'")
        # DuckDB can only guess the length of text files; queries here name the small side last.
        self.connection.execute("SET disabled_optimizers = 'build_side_probe_side'")
        self._number = itertools.count(1)
        self._placed: dict[tuple[object, ...], str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def keep(self, sql: str, given: Mapping[str, Any] | None = None) -> str:
        """Keep the result of a query as a table; return its name."""
        name = f"t{next(self._number)}"
        self._do(f"CREATE TEMP TABLE {name} AS {sql}", given)
        return name

    def rows(self, sql: str) -> list[dict[str, Any]]:
        return dicts(self._do(sql))

    def value(self, sql: str) -> Any:
        row = self._do(sql).fetchone()
        return row[0] if row else None

    def count(self, table: str) -> int:
        return int(self.value(f"SELECT count(*) FROM {table}"))

    def columns(self, sql: str) -> dict[str, str]:
        """Map the columns of a query's result to their types."""
        return {row["column_name"]: row["column_type"] for row in self.rows(f"DESCRIBE {sql}")}

    def placed(self, files: Sequence[str], *, hive: bool = False) -> str:
        """Read the rows of files with their place, as part of a query: `_tm_file`, and `_tm_line`
        counted from 1."""
        key = (hive, *files)
        if key not in self._placed:  # finding the columns opens every file
            self._placed[key] = self._with_places(files, hive=hive)
        return self._placed[key]

    def _with_places(self, files: Sequence[str], *, hive: bool) -> str:
        if ROW_NUMBER in map(str.lower, self.columns(f"SELECT * FROM {parquet(files, hive=hive)}")):
            # DuckDB refuses to add its column: number the rows in the order of the file.
            each = (
                f"SELECT *, row_number() OVER () AS _tm_line FROM {parquet([file], hive=hive)}"
                for file in files
            )
            named = (
                f"SELECT *, {text(file)} AS _tm_file FROM ({one})"
                for file, one in zip(files, each, strict=True)
            )
            return f"({' UNION ALL BY NAME '.join(named)})"
        return (
            f"(SELECT * EXCLUDE ({ROW_NUMBER}), {ROW_NUMBER} + 1 AS _tm_line "
            f"FROM {parquet(files, place=True, hive=hive)})"
        )

    def _do(self, sql: str, given: Mapping[str, Any] | None = None) -> duckdb.DuckDBPyConnection:
        try:
            return self.connection.execute(sql, dict(given or {}))
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            raise DatasetDamaged("evidence or data", first_line(error)) from error


def parquet_files(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.rglob("*.parquet"))]


def parquet(files: Sequence[str], *, place: bool = False, hive: bool = False) -> str:
    """Read the rows of files, as part of a query. `place` adds file and row number; `hive` makes
    columns of folders named `a=1`."""
    listed = ", ".join(text(file) for file in files)
    more = f", filename = '_tm_file', {ROW_NUMBER} = true" if place else ""
    return f"read_parquet([{listed}], hive_partitioning = {hive}, union_by_name = true{more})"
