"""Read trace records from files, with one DuckDB connection for all queries."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import duckdb

from tallyman.domain.history.trace import BASELINE, TraceRecord
from tallyman.engine.files.duck import connect
from tallyman.engine.files.duck import text as literal
from tallyman.errors import TraceCorrupt
from tallyman.errors.wording import first_line
from tallyman.query.arrow_values import rows_of
from tallyman.query.trace.files import TraceFile, check
from tallyman.query.trace.segment_rows import Kind, SegmentRows

BATCH = 10_000
FILE = "_tm_file"
"""The column with the path of a row's file; a user's column may be called `filename`."""
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": min(4, os.cpu_count() or 1),
    "memory_limit": "1GB",
    "autoinstall_known_extensions": False,
}
SETTINGS = "SET GLOBAL TimeZone = 'UTC'; SET GLOBAL parquet_metadata_cache = true"


@dataclass(frozen=True, slots=True)
class Found:
    """A record, and the file that has it: a baseline is in the file of the first change."""

    file: TraceFile
    record: TraceRecord

    @property
    def seq(self) -> int:
        return self.file.step.seq


class TraceReader:
    """A reader that connects on the first query and caches file metadata for the next ones."""

    def __init__(self) -> None:
        self._opened: duckdb.DuckDBPyConnection | None = None

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def of_row(self, files: Sequence[TraceFile], row_id: UUID) -> list[Found]:
        """Read the records of a row: find its files first, then read the row in them."""
        found: list[Found] = []
        for layout, group in _by_layout(files):
            condition = layout.is_row(row_id)
            if condition is None:
                continue
            rest = f"WHERE {condition}"
            for path in dict.fromkeys(path for (path,) in self._rows(FILE, group, rest)):
                inside = [file for file in group if file.path == path]
                for row in self._streamed(inside[:1], rest):
                    found += [
                        Found(file, _record(file, row))
                        for file in inside
                        if layout.holds(file.kind, file.step.seq, row)
                    ]
        return found

    def counts(self, files: Sequence[TraceFile]) -> Counter[tuple[int, Kind]]:
        """Count the records of each step and kind."""
        found = Counter[tuple[int, Kind]]()
        for _, group in _by_layout(files):
            conditions = {(file.step.seq, file.kind): file.condition for file in group}
            sums = ", ".join(f"count_if({condition})" for condition in conditions.values())
            for row in self._rows(sums, group):
                found.update(dict(zip(conditions, row, strict=True)))
        return found

    def records(
        self,
        files: Sequence[TraceFile],
        condition: str = "true",
        *,
        limit: int | None = None,
    ) -> Iterator[TraceRecord]:
        """Yield the records of files of one kind, step and layout that meet a condition; with a
        limit, the first ones in the order of row ids.
        """
        if not files:
            return
        first = files[0]
        rest = f"WHERE {first.condition} AND ({condition})"
        order = first.layout.order
        if limit is not None:
            # Find the ids first: only these rows are then read whole.
            ids = self._rows(order, files, f"{rest} ORDER BY 1 LIMIT {limit}")
            if not ids:
                return
            rest += f" AND {order} <= {ids[-1][0]} ORDER BY {order} LIMIT {limit}"
        for row in self._streamed(files, rest):
            yield _record(first, row)

    # ---- DuckDB --------------------------------------------------------------------------

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._opened is None:
            self._opened = connect(CONFIG)
            self._opened.execute(SETTINGS)
        return self._opened

    def _rows(
        self, asked: str, files: Sequence[TraceFile], rest: str = ""
    ) -> list[tuple[Any, ...]]:
        if not files:
            return []
        check(files)
        try:
            return self._connection.sql(_query(asked, files, rest)).fetchall()
        except duckdb.Error as error:
            raise self._explained(error, asked, files, rest) from error

    def _streamed(self, files: Sequence[TraceFile], rest: str) -> Iterator[dict[str, Any]]:
        if not files:
            return
        check(files)
        try:
            # Use a separate cursor: other queries may run before the last batch is read.
            with self._connection.cursor() as cursor:
                for batch in cursor.sql(_query("*", files, rest)).to_arrow_reader(BATCH):
                    yield from rows_of(batch)
        except (duckdb.Error, OSError) as error:
            raise self._explained(error, "*", files, rest) from error

    def _explained(
        self, error: Exception, asked: str, files: Sequence[TraceFile], rest: str
    ) -> Exception:
        """Find the file that causes the error; return the error unchanged if no single file
        does."""
        for file in files:
            try:
                self._connection.sql(_query(asked, [file], rest)).fetchall()
            except duckdb.Error as problem:
                reason = str(problem).replace(file.path, os.path.basename(file.path))
                return TraceCorrupt(file.shown, f"it cannot be read: {first_line(reason, 200)}")
        return error


def _by_layout(files: Sequence[TraceFile]) -> list[tuple[SegmentRows, list[TraceFile]]]:
    """Group files with the same layout."""
    found: dict[int, tuple[SegmentRows, list[TraceFile]]] = {}
    for file in files:
        found.setdefault(id(file.layout), (file.layout, []))[1].append(file)
    return list(found.values())


def _query(asked: str, files: Sequence[TraceFile], rest: str) -> str:
    listed = ", ".join(literal(path) for path in dict.fromkeys(file.path for file in files))
    source = f"read_parquet([{listed}], hive_partitioning=false, filename={literal(FILE)})"
    return f"SELECT {asked} FROM {source} {rest}"


def _record(file: TraceFile, row: Mapping[str, Any]) -> TraceRecord:
    """Build a record from its stored form."""
    try:
        change, before, after = file.layout.sides(file.kind, file.step, row)
        return TraceRecord(
            run_id=file.folder.run_id,
            operation_seq=BASELINE if file.kind == "baseline" else file.step.seq,
            row_id=file.layout.row_id(row),
            change_type=change,
            before=before,
            after=after,
        )
    except (KeyError, TypeError, ValueError) as error:
        reason = f"it contains a record that is not valid: {error!r}"
        raise TraceCorrupt(file.shown, reason) from error
