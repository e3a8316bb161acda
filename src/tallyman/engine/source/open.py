"""Opening inputs: from a declared source or an upstream output to an input with pinned files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import IntegralType, StringType, StructType

from tallyman.domain.pipeline.pipeline import Source
from tallyman.domain.pipeline.target import source_path
from tallyman.engine.expressions.column_names import SYSTEM, quoted
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files import compressed
from tallyman.engine.files.listing import InputFiles, list_files
from tallyman.engine.files.parquet_set import ParquetSet
from tallyman.engine.plan.check import nearest, source_schema
from tallyman.engine.source.csv_input import CsvInput
from tallyman.engine.source.door_memory import DoorMemory
from tallyman.engine.source.json_input import JsonInput, sniff_prefix
from tallyman.engine.source.lines_input import LinesInput
from tallyman.engine.source.parquet_input import ParquetInput
from tallyman.engine.source.read_failure import unreadable
from tallyman.engine.source.source import NOTHING_REDACTED, Input
from tallyman.errors import DefinitionError, Problem

_LINE = "_tm_line"
LOSES_RECORDS = "could lose records; remove it"
REFUSED: Mapping[str, str] = {
    "mode": LOSES_RECORDS,
    "columnNameOfCorruptRecord": LOSES_RECORDS,
    "badRecordsPath": LOSES_RECORDS,
    "comment": LOSES_RECORDS,
    "encoding": "is not supported: text files are read as UTF-8; convert them with iconv",
    "charset": "is not supported: text files are read as UTF-8; convert them with iconv",
}


def declared_schema(spark: SparkSession, source: Source, project: Path) -> StructType:
    """Return the declared schema; for Parquet without one, the schema of its files."""
    problems = [
        Problem(f"source {source.name}", f"option {name!r} {reason}")
        for name, reason in REFUSED.items()
        if name.lower() in {given.lower() for given in source.options}
    ]
    if problems:
        raise DefinitionError(problems)
    if source.schema is not None:
        return source_schema(spark, source)
    files = list_files(source.name, source_path(source, None), project)
    return _keyed(source, _file_schema(spark, source, files))


def _keyed(source: Source, schema: StructType) -> StructType:
    problems = [
        Problem(f"source {source.name}", f"bad key: there is no column {name!r}", near)
        for name in source.key
        if name not in schema.names
        for near in [nearest(name, schema.names)]
    ]
    if problems:
        raise DefinitionError(problems)
    return schema


def _file_schema(spark: SparkSession, source: Source, files: InputFiles) -> StructType:
    """Merge the columns of all files; DefinitionError lists those that cannot be merged."""
    where, found = f"source {source.name}", ParquetSet(files)
    folders = _folder_columns(spark, where, found)
    known = found.spark_schema()
    if known is not None:
        return _without_ours(StructType.fromJson(json.loads(known)), folders)
    merged, misfits = found.union()
    if misfits:
        raise DefinitionError([Problem(where, f"column {m.column!r}: {m.reason}") for m in misfits])
    text = ", ".join(f"{quoted(name)} {kind}" for name, kind in merged.items())
    schema = StructType.fromDDL(text)
    assert isinstance(schema, StructType)
    return _without_ours(schema, folders)


def _without_ours(columns: StructType, folders: StructType) -> StructType:
    """Leave out our own column, and take the columns of folders as Spark does: they win."""
    named = {field.name: field for field in folders}
    inside = [named.pop(f.name, f) for f in columns if f.name != SYSTEM]
    return StructType([*inside, *named.values()])


def _folder_columns(spark: SparkSession, where: str, found: ParquetSet) -> StructType:
    """Ask Spark for the types of the columns that `name=value` folders stand for."""
    if (mixed := found.mixed_folders()) is not None:
        reason = "stand for different columns; give each kind of folder its own source"
        files = f"the folders of {mixed[0]!r} and {mixed[1]!r}"
        raise DefinitionError([Problem(where, f"{files} {reason}")])
    if not found.folder_columns:
        return StructType()
    reader = spark.read.option("basePath", found.files.root).schema(f"{_LINE} string")
    schema = reader.text(found.files.paths).schema
    return StructType([field for field in schema if field.name != _LINE])


def open_source(
    spark: SparkSession,
    source: Source,
    schema: StructType,
    files: InputFiles,
    redaction: Redaction = NOTHING_REDACTED,
    memory: DoorMemory | None = None,
) -> Input:
    given = (source.name, spark, files, schema, source.key, dict(source.options))
    shared = {"redaction": redaction, "memory": memory}
    if source.format == "parquet":
        parquet = ParquetInput(*given, **shared)
        _check_parquet(source, parquet)
        return parquet
    compressed.check(files)
    prefix = None
    if source.format == "json" and len(source.key) == 1:
        prefix = sniff_prefix(files, source.key[0])
    csv, careful = CsvInput(*given, **shared), LinesInput(*given, prefix, **shared)
    try:
        if source.format == "csv":
            _check_header(csv)
            return csv
        return _fastest(careful, JsonInput(*given, prefix, **shared))
    except Exception as error:
        if (found := unreadable(error, [careful])) is None:
            raise
        raise found from error


def _fastest(careful: LinesInput, fast: JsonInput) -> Input:
    """Use the fast reader if the text of a key equals its typed form and every line is one
    object.
    """
    of_text = (StringType, IntegralType)
    if not fast.prefix or not isinstance(fast.schema[fast.key[0]].dataType, of_text):
        return careful
    return fast if fast.regular else careful


def open_output(
    spark: SparkSession,
    files: InputFiles,
    schema: StructType,
    key: Sequence[str],
    redaction: Redaction = NOTHING_REDACTED,
    memory: DoorMemory | None = None,
) -> Input:
    """Open the rows of an upstream asset, after checking that the files are as published."""
    files.check_recorded()
    given = (files.input, spark, files, schema, tuple(key), {})
    opened = ParquetInput(*given, redaction=redaction, memory=memory, own=True)
    if problems := _misfits(opened, f"input {files.input}"):
        raise DefinitionError(list(problems.values()))
    return opened


def _check_parquet(source: Source, opened: ParquetInput) -> None:
    """Check declared types against the files: a difference is a mistake, not bad data."""
    where, found = f"source {source.name}", opened.file_set
    folders = _folder_columns(opened.spark, where, found)
    there = [*found.columns(), *folders.names]
    misfits = _misfits(opened, where)
    problems = list(misfits.values())
    for field in opened.schema if source.schema is not None else ():
        if field.name in folders.names:
            kinds = (field.dataType.simpleString(), folders[field.name].dataType.simpleString())
            if kinds[0] != kinds[1]:
                said = f"is declared {kinds[0]}, the folders hold {kinds[1]}"
                problems.append(Problem(where, f"column {field.name!r} {said}"))
        elif field.name not in {*there, *misfits}:
            said = f"the files have no column {field.name!r}"
            problems.append(Problem(where, said, nearest(field.name, there)))
    if problems:
        raise DefinitionError(problems)


def _misfits(opened: ParquetInput, where: str) -> dict[str, Problem]:
    """List the columns that the files have in another type, by name."""
    found = opened.file_set.misfits(opened.wanted)
    return {one.column: Problem(where, f"column {one.column!r} {one.reason}") for one in found}


def _check_header(source: CsvInput) -> None:
    if not source.headers:
        return
    where = f"source {source.name}"
    lacking = [name for name in source.schema.names if name not in source.header]
    problems = [
        Problem(where, f"the header has no column {name!r}", nearest(name, source.header))
        for name in lacking
    ]
    if len(lacking) == len(source.schema.names):
        first = source.first_line[:80]
        problems = [
            Problem(
                where,
                f"the first line is not a header: {first!r}; it has none of the columns. If it is "
                'a record, set options={"header": False}',
            )
        ]
    repeated = [name for name in source.schema.names if source.header.count(name) > 1]
    problems += [
        Problem(where, f"the header has {source.header.count(name)} columns {name!r}")
        for name in repeated
    ]
    if any(header != source.headers[0] for header in source.headers):
        problems.append(Problem(where, "its files have different headers"))
    if problems:
        raise DefinitionError(problems)
