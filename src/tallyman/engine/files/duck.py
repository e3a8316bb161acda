"""DuckDB: how it is opened, and how names and texts are quoted in SQL."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

Config = Mapping[str, str | bool | int | float | list[str]]


def connect(config: Config | None = None) -> duckdb.DuckDBPyConnection:
    """Connect without a progress bar: if DuckDB takes the process for interactive, it would draw on
    stdout during a slow query, in the middle of what `--json` prints.
    """
    connection = duckdb.connect(config=dict(config or {}))
    connection.execute("SET enable_progress_bar = false")
    return connection


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
