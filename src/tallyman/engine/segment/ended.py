"""Rows that ended in a segment: counted and digested by part, and read if they are few."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.expressions.column_names import KEY, LIVE, PART, PLACE, REJECTIONS
from tallyman.engine.files import parquet
from tallyman.engine.spark import digest
from tallyman.engine.spark.spark_hash import digest_of


@dataclass(frozen=True, slots=True)
class EndedRows:
    """The rows of one stage that ended in it."""

    totals: Mapping[int, KeyDigest] = field(default_factory=dict)
    """Count and digest, by part."""
    rows: pa.Table | None = None
    """Key, part, rejections and place of each record, if this process can read them: they are few,
    also in bytes, and their text is UTF-8.
    """

    def of(self, parts: Iterable[int]) -> pa.Table:
        assert self.rows is not None
        return self.rows.filter(pc.field(PART).isin(sorted(parts)))


@dataclass(frozen=True, slots=True)
class EndedColumns:
    """Where a stage has key, rejections and place of a row, and the number of records it stands
    for: names of columns, or of fields within one (`_tm.key`).
    """

    key: str
    reasons: str
    place: str | None = None
    multiplicity: str | None = None

    def read(self, folders: Mapping[int, Path]) -> EndedRows | None:
        """Read and digest the rows in the folders of parts; None if only Spark can."""
        files = {n: sorted(folder.glob("part-*")) for n, folder in folders.items()}
        if not parquet.few(sum(map(parquet.rows_in, files.values()))):
            return None
        parts: dict[int, pa.Table] = {}
        left = parquet.BYTES
        try:
            for number, found in files.items():
                parts[number] = parquet.table(found, self._wanted, most=left)
                left -= parts[number].nbytes
        except parquet.TooManyBytes:
            return None
        return self._ended(parts)

    def read_among(self, files: Sequence[Path]) -> EndedRows | None:
        """The same, with the rows of all parts in the same files."""
        if not parquet.few(parquet.rows_in(files)):
            return None
        wanted, ended = [PART, *self._wanted], pc.field(PART) != LIVE
        try:
            rows = parquet.table(files, wanted, only=ended, most=parquet.BYTES)
        except parquet.TooManyBytes:
            return None
        parts = sorted(rows[PART].unique().to_pylist())
        return self._ended({n: rows.filter(pc.field(PART) == n) for n in parts})

    @property
    def _wanted(self) -> list[str]:
        lanes = digest.NAMES if self.multiplicity else ()
        return [n for n in (self.key, self.reasons, self.place, *lanes) if n]

    def _ended(self, parts: Mapping[int, pa.Table]) -> EndedRows | None:
        totals: dict[int, KeyDigest] = {}
        tables: list[pa.Table] = []
        for part, rows in parts.items():
            try:
                rows.validate(full=True)
            except pa.ArrowInvalid:  # text that is not UTF-8
                return None
            if self.multiplicity:
                sums = (sum(rows[name].to_pylist()) for name in digest.NAMES)
                totals[part] = KeyDigest(*sums)
            else:
                totals[part] = _digest(at(rows, self.key))
            if not parquet.few(totals[part].count):  # one row may stand for very many records
                return None
            tables.append(self._named(rows, part, totals[part].count))
        return EndedRows(
            totals, pa.concat_tables(tables, promote_options="permissive") if tables else None
        )

    def _named(self, rows: pa.Table, part: int, records: int) -> pa.Table:
        place = at(rows, self.place) if self.place else pa.nulls(rows.num_rows)
        found = pa.table(
            {
                KEY: at(rows, self.key),
                PART: pa.repeat(pa.scalar(part, pa.int32()), rows.num_rows),
                REJECTIONS: at(rows, self.reasons),
                PLACE: place,
            }
        )
        if not self.multiplicity or records == rows.num_rows:
            return found
        counts = rows[self.multiplicity].to_pylist()
        return found.take([n for n, count in enumerate(counts) for _ in range(count)])


def _digest(keys: pa.ChunkedArray) -> KeyDigest:
    """Digest keys piece by piece: as values of Python they take four times the memory."""
    return sum((digest_of(piece.to_pylist()) for piece in keys.chunks), KeyDigest())


def at(rows: pa.Table, path: str) -> pa.ChunkedArray:
    """Return a column, or a field within one."""
    name, *fields = path.split(".")
    if not fields:
        return rows[name]
    return pc.call_function("struct_field", [rows[name]], pc.StructFieldOptions(fields))
