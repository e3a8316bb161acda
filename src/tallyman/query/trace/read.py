"""Read trace records from files, with one DuckDB connection for all queries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import duckdb

from tallyman.domain.history.trace import BASELINE, DELETED, ChangeType, TraceRecord, Values
from tallyman.engine.files.duck import connect
from tallyman.errors import TraceCorrupt
from tallyman.errors.wording import first_line
from tallyman.query.arrow_values import rows_of
from tallyman.query.diff.columns import literal
from tallyman.query.trace.files import TraceFile, check

BATCH = 10_000
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": min(4, os.cpu_count() or 1),
    "memory_limit": "1GB",
    "autoinstall_known_extensions": False,
}
SETTINGS = "SET GLOBAL TimeZone = 'UTC'; SET GLOBAL parquet_metadata_cache = true"


Query = Callable[[str], str]
"""Builds SQL for a given source of rows."""


class TraceReader:
    """A reader that connects on the first query and caches file metadata for the next ones."""

    def __init__(self) -> None:
        self._opened: duckdb.DuckDBPyConnection | None = None

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def holding(self, files: Sequence[TraceFile], row_id: UUID) -> list[TraceFile]:
        """List the files that contain records of the row."""
        wanted = literal(str(row_id))
        found = self._rows(
            lambda source: f"SELECT filename FROM {source} WHERE row_id = {wanted}", files
        )
        by_path = {file.path: file for file in files}
        return [by_path[path] for path in dict.fromkeys(path for (path,) in found)]

    def counts(self, files: Sequence[TraceFile]) -> dict[str, int]:
        """Count the records of each file by path; reads only the file footers."""
        return dict(
            self._rows(lambda source: f"SELECT filename, count(*) FROM {source} GROUP BY 1", files)
        )

    def records(self, files: Sequence[TraceFile], rest: str = "") -> Iterator[TraceRecord]:
        """Yield the records of files of one kind and step; `rest` is SQL for condition and
        order."""
        for row in self._streamed(lambda source: f"SELECT * FROM {source} {rest}", files):
            try:
                yield _record(files[0], row)
            except (KeyError, TypeError, ValueError) as error:
                reason = f"it contains a record that is not valid: {error!r}"
                raise TraceCorrupt(files[0].shown, reason) from error

    # ---- DuckDB --------------------------------------------------------------------------

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._opened is None:
            self._opened = connect(CONFIG)
            self._opened.execute(SETTINGS)
        return self._opened

    def _rows(self, query: Query, files: Sequence[TraceFile]) -> list[tuple[Any, ...]]:
        if not files:
            return []
        check(files)
        try:
            return self._connection.sql(query(_source(files))).fetchall()
        except duckdb.Error as error:
            raise self._explained(error, query, files) from error

    def _streamed(self, query: Query, files: Sequence[TraceFile]) -> Iterator[dict[str, Any]]:
        if not files:
            return
        check(files)
        try:
            # Use a separate cursor: other queries may run before the last batch is read.
            with self._connection.cursor() as cursor:
                for batch in cursor.sql(query(_source(files))).to_arrow_reader(BATCH):
                    yield from rows_of(batch)
        except (duckdb.Error, OSError) as error:
            raise self._explained(error, query, files) from error

    def _explained(self, error: Exception, query: Query, files: Sequence[TraceFile]) -> Exception:
        """Find the file that causes the error; return the error unchanged if no single file
        does."""
        for file in files:
            try:
                self._connection.sql(query(_source([file]))).fetchall()
            except duckdb.Error as problem:
                reason = str(problem).replace(file.path, os.path.basename(file.path))
                return TraceCorrupt(file.shown, f"it cannot be read: {first_line(reason, 200)}")
        return error


def _source(files: Sequence[TraceFile]) -> str:
    listed = ", ".join(literal(file.path) for file in files)
    return f"read_parquet([{listed}], hive_partitioning=false)"


def _record(file: TraceFile, row: Mapping[str, Any]) -> TraceRecord:
    """Build a record from its stored form: an update is a mask and two structs, a deletion only an
    id."""
    change, before, after = _change(file, row)
    return TraceRecord(
        run_id=file.folder.run_id,
        operation_seq=BASELINE if file.kind == "baseline" else file.step.seq,
        row_id=UUID(row["row_id"]),
        change_type=change,
        before=before,
        after=after,
    )


def _change(
    file: TraceFile, row: Mapping[str, Any]
) -> tuple[ChangeType, Values | None, Values | None]:
    if file.kind == "deleted":
        return ChangeType.DELETED, {DELETED: False}, None
    if file.kind != "updated":
        columns = file.folder.loaded if file.kind == "baseline" else file.step.columns
        return ChangeType.CREATED, None, {name: row["after"][name] for name in columns}
    mask, assigned = row["changed"], file.step.assigned
    if len(mask) != len(assigned) or set(mask) - {"0", "1"} or "1" not in mask:
        raise ValueError(f"changed {mask!r} of the columns {', '.join(assigned)}")
    changed = [name for name, bit in zip(assigned, mask, strict=True) if bit == "1"]
    before, after = ({name: row[side][name] for name in changed} for side in ("before", "after"))
    return ChangeType.UPDATED, before, after
