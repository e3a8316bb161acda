"""Opening inputs: from a declared source or an upstream output to an input with pinned files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import IntegralType, StringType, StructType

from tallyman.domain.pipeline.pipeline import Source
from tallyman.domain.pipeline.target import source_path
from tallyman.engine.expressions.column_names import SYSTEM
from tallyman.engine.expressions.redact import Redaction
from tallyman.engine.files.listing import InputFiles, list_files
from tallyman.engine.plan.check import nearest, source_schema
from tallyman.engine.source.csv_input import CsvInput
from tallyman.engine.source.door_memory import DoorMemory
from tallyman.engine.source.json_input import JsonInput, sniff_prefix
from tallyman.engine.source.lines_input import LinesInput
from tallyman.engine.source.parquet_input import ParquetInput, footers
from tallyman.engine.source.source import NOTHING_REDACTED, Input
from tallyman.errors import DefinitionError, Problem

SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
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
    return _file_schema(spark, files)


def _file_schema(spark: SparkSession, files: InputFiles) -> StructType:
    """Read the schema from the footer if Spark wrote the file; asking Spark costs a job."""
    said = footers(files)[0].metadata or {}
    if SPARK_SCHEMA in said and "=" not in files.files[0].name:
        known = StructType.fromJson(json.loads(said[SPARK_SCHEMA]))
        return StructType([f for f in known if f.name != SYSTEM])
    found = spark.read.option("basePath", files.root).parquet(*files.paths).schema
    return StructType([f for f in found if f.name != SYSTEM])


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
        _check_parquet(spark, source, schema, files)
        return ParquetInput(*given, **shared)
    if source.format == "csv":
        opened = CsvInput(*given, **shared)
        _check_header(opened)
        return opened
    prefix = sniff_prefix(files, source.key[0]) if len(source.key) == 1 else None
    careful = LinesInput(*given, prefix, **shared)
    # Use the fast reader if the text of a key equals its typed form and every line is one object.
    if prefix and isinstance(schema[source.key[0]].dataType, (StringType, IntegralType)):
        fast = JsonInput(*given, prefix, **shared)
        return fast if fast.regular else careful
    return careful


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
    return ParquetInput(*given, redaction=redaction, memory=memory)


def _check_parquet(
    spark: SparkSession, source: Source, schema: StructType, files: InputFiles
) -> None:
    """Check declared types against the files: a difference is a mistake, not bad data."""
    found = {f.name: f.dataType for f in _file_schema(spark, files)}
    where = f"source {source.name}"
    problems = []
    for field in schema:
        if field.name not in found:
            near = nearest(field.name, list(found))
            problems.append(Problem(where, f"the files have no column {field.name!r}", near))
        elif found[field.name].simpleString() != field.dataType.simpleString():
            kinds = (field.dataType.simpleString(), found[field.name].simpleString())
            problems.append(
                Problem(
                    where,
                    f"column {field.name!r} is declared {kinds[0]}, the files hold {kinds[1]}",
                )
            )
    if problems:
        raise DefinitionError(problems)


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
                where, f'the first line is not a header: {first!r}; set options={{"header": False}}'
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
