"""Rows given in a test, written as the files that an input of the pipeline would have."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tallyman.domain.pipeline.pipeline import Source
from tallyman.engine.files.parquet_set import SPARK_SCHEMA
from tallyman.engine.source.csv_dialect import CsvDialect
from tallyman.engine.source.source import nullable
from tallyman.errors import UsageError
from tallyman.errors.wording import first_line, nearest
from tallyman.query.arrow_values import rows_of

GivenRow: TypeAlias = Mapping[str, Any] | str | bytes
"""A mapping is a record; text is a line of the file, whatever stands in it."""
GivenRows: TypeAlias = Iterable[GivenRow] | DataFrame


@dataclass(frozen=True, slots=True)
class Given:
    """The rows of one input."""

    input: str
    rows: tuple[GivenRow, ...]

    @classmethod
    def of(cls, name: str, rows: GivenRows) -> Given:
        listed = _collected(rows) if isinstance(rows, DataFrame) else rows
        if isinstance(listed, (str, bytes, Mapping)) or not isinstance(listed, Iterable):
            kind = type(listed).__name__
            raise UsageError(f"rows of {name!r}: expected a list of rows, not {kind}")
        return cls(name, tuple(_row(name, n, row) for n, row in enumerate(listed, 1)))

    def write_lines(self, path: Path, source: Source, columns: Sequence[str]) -> None:
        """Write the source's format, with its options; a line that is given is written as it is."""
        self._check_columns(columns)
        written = [self._line(n, row, source, columns) for n, row in enumerate(self.rows, 1)]
        separator = source.options.get("lineSep", "\n").encode()
        if source.format == "csv" and source.options.get("header", "true") == "true":
            header = csv_line(dict(zip(columns, columns, strict=True)), columns, source.options)
            written.insert(0, header.encode())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line + separator for line in written))

    def _line(
        self,
        number: int,
        row: GivenRow,
        source: Source,
        columns: Sequence[str],
    ) -> bytes:
        if isinstance(row, bytes):
            return row
        if isinstance(row, str):
            return row.encode()
        try:
            if source.format == "csv":
                return csv_line(row, columns, source.options).encode()
            return json_line(row).encode()
        except ValueError as error:
            raise UsageError(f"row {number} of {self.input!r}: {error}") from None

    def write_parquet(self, path: Path, schema: StructType | None) -> None:
        """Write the declared types, or without a schema those of the values."""
        records = [self._record(n, row) for n, row in enumerate(self.rows, 1)]
        path.parent.mkdir(parents=True, exist_ok=True)
        if schema is None:
            pq.write_table(self._inferred(records), path)
            return
        self._check_columns(schema.names)
        # A NULL in a column that has none is for the run to find.
        found = StructType(nullable(schema.fields))
        typed = to_arrow_schema(found)
        columns = [self._column(field, records) for field in typed]
        kept = typed.with_metadata({SPARK_SCHEMA: found.json().encode()})
        pq.write_table(pa.Table.from_arrays(columns, schema=kept), path)

    def _record(self, number: int, row: GivenRow) -> Mapping[str, Any]:
        if isinstance(row, (str, bytes)):
            raise UsageError(f"row {number} of {self.input!r}: a line of text, and it has no lines")
        return row

    def _inferred(self, records: Sequence[Mapping[str, Any]]) -> pa.Table:
        if not records:
            raise UsageError(f"{self.input!r} declares no schema: give it at least one row")
        try:
            return pa.Table.from_pylist([dict(record) for record in records])
        except pa.ArrowException as error:
            raise UsageError(f"rows of {self.input!r}: {first_line(error)}") from None

    def _column(self, field: pa.Field, records: Sequence[Mapping[str, Any]]) -> pa.Array:
        try:
            return pa.array([record.get(field.name) for record in records], field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UsageError(
                f"rows of {self.input!r}: not every {field.name!r} is {field.type}: "
                f"{first_line(error)}"
            ) from None

    def _check_columns(self, columns: Sequence[str]) -> None:
        """Refuse a name that the schema lacks: more often a slip than a field to be ignored."""
        for number, row in enumerate(self.rows, 1):
            for name in row if isinstance(row, Mapping) else ():
                if name not in columns:
                    near = nearest(name, columns)
                    meant = f"Did you mean {near!r}?" if near else f"It has {', '.join(columns)}."
                    where = f"row {number} of {self.input!r}"
                    raise UsageError(f"{where}: there is no column {name!r}. {meant}")


def _collected(rows: DataFrame) -> list[dict[str, Any]]:
    """Collect through Arrow: Spark's own rows have instants in the time zone of the machine."""
    return [row for batch in rows.toArrow().to_batches() for row in rows_of(batch)]


def _row(name: str, number: int, row: object) -> GivenRow:
    if not isinstance(row, (Mapping, str, bytes)):
        kind = type(row).__name__
        raise UsageError(f"row {number} of {name!r}: expected columns and values, not {kind}")
    if not isinstance(row, Mapping) and len(row.splitlines()) > 1:
        raise UsageError(f"row {number} of {name!r}: a line break inside a line")
    return row


def json_line(value: object) -> str:
    """Write a value as json.dumps does, with exact decimals, and dates and bytes as Spark reads
    them."""
    match value:
        case Mapping():
            fields = (f"{json.dumps(str(k))}: {json_line(v)}" for k, v in value.items())
            return f"{{{', '.join(fields)}}}"
        case list() | tuple():
            return f"[{', '.join(map(json_line, value))}]"
        case Decimal() if value.is_finite():
            return format(value, "f")
        case date():
            return json.dumps(value.isoformat())
        case bytes():
            return json.dumps(b64encode(value).decode())
        case None | bool() | int() | float() | str():
            return json.dumps(value, ensure_ascii=False)
    raise ValueError(f"{value!r} cannot be written as JSON")


def csv_line(record: Mapping[str, Any], columns: Sequence[str], options: Mapping[str, str]) -> str:
    """Write a record so that Spark's CSV reader, with the options of the source, reads it back."""
    separator = options.get("sep", options.get("delimiter", ","))
    return separator.join(_csv(record.get(name), separator, options) for name in columns)


def _csv(value: object, separator: str, options: Mapping[str, str]) -> str:
    dialect = CsvDialect.of(options)
    quote, escape = dialect.quote, dialect.escape
    nothing = options.get("nullValue", "")
    if value is None:
        return nothing
    text = _text(value)
    plain = text != nothing and text == text.strip()
    specials = (separator, quote, escape, "\n", "\r")
    if plain and not any(special in text for special in specials if special):
        return text
    for special in dict.fromkeys([escape, quote]):
        text = text.replace(special, escape + special)
    return f"{quote}{text}{quote}"


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case Decimal() if value.is_finite():
            return format(value, "f")
        case date():  # an instant is one too
            return value.isoformat()
        case int() | float() | str():
            return str(value)
    raise ValueError(f"{value!r} cannot be written as CSV")
