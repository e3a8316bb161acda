"""DuckDB: how it is opened, its types, and how names and texts are quoted in SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import duckdb

Config = Mapping[str, str | bool | int | float | list[str]]
BLOB = "BLOB"
_DUCK = {
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "binary": BLOB,
}
_DECIMAL = re.compile(r"decimal\s*\(\s*\d+\s*,\s*\d+\s*\)")


def connect(config: Config | None = None) -> duckdb.DuckDBPyConnection:
    """Connect without a progress bar: if DuckDB takes the process for interactive, it would draw on
    stdout during a slow query, in the middle of what `--json` prints.
    """
    connection = duckdb.connect(config=dict(config or {}))
    connection.execute("SET enable_progress_bar = false")
    return connection


def dicts(found: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Read the rows of a result by the names of its columns."""
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def duck_type(spark: str) -> str:
    """Translate a Spark type; values of a type that is not plain are compared as text."""
    lower = " ".join(spark.lower().split())
    return lower.upper() if _DECIMAL.fullmatch(lower) else _DUCK.get(lower, "VARCHAR")
