"""The rows of a file, typed for a table: each value fits, or the row is counted and named.

DuckDB reads and types the texts, so that a million rows never become Python objects.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path

import duckdb
import pyarrow as pa
from pyarrow import parquet as pq

from tallyman.domain.version.table import Column, Table
from tallyman.engine.files.duck import duck_type, quoted
from tallyman.engine.files.duck import text as literal
from tallyman.engine.files.parquet_types import COUNTS, ColumnType, of_footer, widens
from tallyman.engine.table.state import GIVEN, ROW, TableState, column_or_null
from tallyman.engine.table.values import arrow_schema, decimal_digits, text_pattern
from tallyman.errors import InputMissing, InputUnreadable, UsageError
from tallyman.errors.wording import first_line

LINES = (".jsonl", ".ndjson", ".json")
SUFFIXES = (".csv", *LINES, ".parquet")

_CSV = (
    "auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', nullstr = '', "
    "allow_quoted_nulls = false, strict_mode = true, store_rejects = true, rejects_limit = 0"
)
_NUMBERS = ("UBIGINT", "BIGINT", "DOUBLE")
_BROKEN = (
    "CASE WHEN coalesce(z <> 'OBJECT', true) THEN 'not a JSON object' "
    "WHEN len(k) <> len(list_distinct(k)) THEN 'a name twice' END"
)
_NUMBERED = f"SELECT *, row_number() OVER () AS {ROW}"
_BATCH = 65_536


@dataclass(frozen=True, slots=True)
class _LoadedText:
    """SQL for a value as text, and for whether it may be read as text at all."""

    sql: str
    is_fit: str = "true"


def give_file(state: TableState, dataset: str, file: Path) -> None:
    """Load the rows of the file as the given rows; MutationRefused counts every wrong row."""
    if not file.is_file():
        raise InputMissing(dataset, str(file), "Check the path.")
    try:
        if file.suffix == ".csv":
            _give_csv(state, dataset, file)
        elif file.suffix in LINES:
            _give_json(state, dataset, file)
        elif file.suffix == ".parquet":
            _give_parquet(state, dataset, file)
        else:
            raise UsageError(
                f"file {file.name!r}: its name must end in one of {', '.join(SUFFIXES)}"
            )
    except (duckdb.Error, pa.ArrowException, UnicodeDecodeError, csv.Error) as error:
        raise InputUnreadable(dataset, file.name, first_line(error)) from error


def _give_csv(state: TableState, dataset: str, file: Path) -> None:
    # DuckDB reports bytes that are not text with a line number; here they must not stop the header.
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as opened:
        header = next(csv.reader(opened), list[str]())
    if not header or len(set(header)) != len(header):
        raise InputUnreadable(dataset, file.name, "the first line must name each column once")
    _check_names(state, dataset, header)
    kinds = ", ".join(f"c{place}: 'VARCHAR'" for place in range(len(header)))
    texts = {name: _LoadedText(f"c{place}") for place, name in enumerate(header)}
    # Escape the path: a pattern in it would read other files too.
    source = f"({_NUMBERED} FROM read_csv($1, columns = {{{kinds}}}, {_CSV}))"
    _give_texts(state, state.table(dataset), texts, source, [escape(str(file))])
    broken = state.ask(
        "SELECT line, min(error_message) FROM reject_errors GROUP BY line ORDER BY line"
    )
    _check_rows(state, dataset, [f"line {line}: {message}" for line, message in broken])


def _give_json(state: TableState, dataset: str, file: Path) -> None:
    is_array, is_closed = _array(file)
    if is_array and not is_closed:
        raise InputUnreadable(dataset, file.name, "the list is not closed; is the file truncated?")
    reading = (
        "format = 'array'" if is_array else "format = 'newline_delimited', ignore_errors = true"
    )
    state.ask(
        f"CREATE TEMP TABLE _tm_json AS {_NUMBERED} FROM read_json_objects($1, {reading})",
        [escape(str(file))],
    )
    names = state.ask("SELECT DISTINCT unnest(json_keys(json)) FROM _tm_json ORDER BY ALL")
    _check_names(state, dataset, [name for (name,) in names])
    table = state.table(dataset)
    texts = {c.name: _json_text(c, place) for place, c in enumerate(table.columns, 1)}
    pointers = ", ".join(_pointer(column) for column in table.columns)
    # All at once: each call of a JSON function parses the whole line again.
    lists = f"json_extract_string(json, [{pointers}]) AS x, json_type(json, [{pointers}]) AS y"
    source = f"(SELECT *, json_keys(json) AS k, json_type(json) AS z, {lists} FROM _tm_json)"
    _give_texts(state, table, texts, source, [], _BROKEN)
    state.ask("DROP TABLE _tm_json")
    _check_rows(state, dataset, [])


def _array(file: Path) -> tuple[bool, bool]:
    """Check whether it begins and ends as a list: DuckDB accepts `[{…},` as a whole file."""
    with file.open("rb") as opened:
        first = opened.read(4096)
        opened.seek(-min(4096, file.stat().st_size), os.SEEK_END)
        last = opened.read()
    return first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["), last.rstrip().endswith(b"]")


def _pointer(column: Column) -> str:
    return literal("/" + column.name.replace("~", "~0").replace("/", "~1"))


def _json_text(column: Column, place: int) -> _LoadedText:
    text, found = f"x[{place}]", f"y[{place}]"
    is_decimal = decimal_digits(column.type) is not None
    kinds = {"string": ("VARCHAR",), "boolean": ("BOOLEAN",), "double": _NUMBERS, "float": _NUMBERS}
    if is_decimal:
        # DuckDB converts a number to double; its digits as written are only in the line itself. A
        # quote inside a text is escaped there, so that only the key can match.
        key = re.escape(json.dumps(column.name, ensure_ascii=False))
        written = literal(f"{key}\\s*:\\s*(-?[0-9][0-9.eE+-]*)")
        text = (
            f"CASE WHEN {found} = 'VARCHAR' THEN {text} WHEN {found} <> 'NULL' THEN "
            f"coalesce(nullif(regexp_extract(json, {written}, 1), ''), {text} || ' ?') END"
        )
        allowed: Sequence[str] = ("VARCHAR", *_NUMBERS)
    elif column.type.endswith("int"):
        allowed = ("UBIGINT", "BIGINT")
    else:
        allowed = kinds.get(column.type, ("VARCHAR",))
    return _LoadedText(text, f"{found} IN ({', '.join(map(literal, allowed))})")


def _give_texts(
    state: TableState,
    table: Table,
    texts: Mapping[str, _LoadedText],
    source: str,
    values: Sequence[object],
    broken: str = "NULL",
) -> None:
    """Type every text of the source, and note for each row what is wrong with it."""
    read: list[str] = []
    wrong: list[str] = []
    empty: list[str] = []
    for place, column in enumerate(table.columns):
        text = texts.get(column.name, _LoadedText("NULL"))
        read.append(f"CAST({text.sql} AS VARCHAR) AS t{place}, {text.is_fit} AS f{place}")
        message = literal(f" is not {column.type}")
        label = literal(f"{column.name} = ")
        wrong.append(
            f"CASE WHEN t{place} IS NOT NULL AND v{place} IS NULL "
            f"THEN {label} || left(t{place}, 60) || {message} END"
        )
        if not column.nullable:
            empty.append(f"CASE WHEN t{place} IS NULL THEN {literal(f'{column.name} is NULL')} END")
    typed = ", ".join(f"{_typed(c, place)} AS v{place}" for place, c in enumerate(table.columns))
    named = ", ".join(f"v{place} AS {quoted(n)}" for place, n in enumerate(table.names))
    unfit, null = (f"nullif(concat_ws(', ', {', '.join(some)}), '')" for some in (wrong, empty))
    state.ask(
        f"""CREATE TABLE {GIVEN} AS
        SELECT {named}, {ROW}, coalesce(broken, {unfit}) AS _tm_unfit,
            CASE WHEN broken IS NULL THEN {null} END AS _tm_null
        FROM (SELECT *, {typed} FROM (
            SELECT {", ".join(read)}, {broken} AS broken, {ROW}
            FROM {source}
        ))
        """,
        values,
    )


def _typed(column: Column, place: int) -> str:
    text, kind = f"t{place}", duck_type(column.type)
    matches = f"f{place} AND regexp_full_match({text}, {literal(text_pattern(column.type))})"
    if column.type == "string":
        return f"CASE WHEN f{place} THEN {text} END"
    if column.type == "binary":
        return f"CASE WHEN {matches} THEN from_base64({text}) END"
    value = f"TRY_CAST({text} AS {kind})"
    if column.type in ("float", "double"):
        # For a fraction the nearest value is meant; a whole number must be exact.
        matches += (
            f" AND (NOT isinf({value}) OR {text} ILIKE '%inf%') AND "
            f"(NOT regexp_full_match({text}, '[+-]?[0-9]+') "
            f"OR TRY_CAST({value} AS HUGEINT) = TRY_CAST({text} AS HUGEINT))"
        )
    return f"CASE WHEN {matches} THEN {value} END"


def _check_rows(state: TableState, dataset: str, broken: Sequence[str]) -> None:
    found = state.ask(
        "SELECT count(coalesce(_tm_unfit, _tm_null)), count(_tm_unfit), count(_tm_null) "
        f"FROM {GIVEN}"
    )
    rows, unfit, null = found[0]
    if not rows and not broken:
        return
    samples = list(broken)
    if not broken:  # after a broken line, row numbers would mislead
        _, first = state.rows(
            f"SELECT {ROW}, concat_ws(', ', _tm_unfit, _tm_null) FROM {GIVEN} "
            "WHERE coalesce(_tm_unfit, _tm_null) IS NOT NULL"
        )
        samples = [f"row {row}: {message}" for row, message in first]
    rules = [
        rule for rule, is_broken in (("not_null", null), ("type", unfit or broken)) if is_broken
    ]
    raise state.refused(dataset, ", ".join(rules), rows + len(broken), samples)


def _check_names(state: TableState, dataset: str, names: Sequence[str]) -> None:
    table = state.table(dataset)
    unknown = [name for name in names if name not in table.names]
    if unknown:
        raise state.unknown_columns(dataset, unknown)


def _give_parquet(state: TableState, dataset: str, file: Path) -> None:
    table = state.table(dataset)
    opened = pq.ParquetFile(file, page_checksum_verification=True)
    found: pa.Schema = opened.schema_arrow
    _check_names(state, dataset, found.names)
    wanted = pa.schema([arrow_schema(table).field(name) for name in found.names])
    unfit = [
        f"{name} is {found.field(name).type} and not {wanted.field(name).type}"
        for name, kind in of_footer(opened.metadata).items()
        if kind.name in COUNTS or not widens(kind, ColumnType(table.column(name).type))
    ]
    if unfit:
        raise state.refused(dataset, "type", opened.metadata.num_rows, unfit)
    state.connection.register(
        "_tm_file", pa.RecordBatchReader.from_batches(wanted, _cast(opened, wanted))
    )
    columns = ", ".join(column_or_null(c, c.name in found.names) for c in table.columns)
    state.ask(
        f"CREATE TABLE {GIVEN} AS SELECT {columns}, row_number() OVER () AS {ROW} FROM _tm_file"
    )
    state.connection.unregister("_tm_file")


def _cast(opened: pq.ParquetFile, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    loose = pa.schema([field.with_nullable(True) for field in wanted])
    for batch in opened.iter_batches(_BATCH):
        yield pa.RecordBatch.from_arrays(batch.cast(loose).columns, schema=wanted)
