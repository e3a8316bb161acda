"""DuckDB as all of us use it: how it is opened, and how names and texts are written into SQL."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

Config = Mapping[str, str | bool | int | float | list[str]]


def connect(config: Config | None = None) -> duckdb.DuckDBPyConnection:
    """Without a progress bar: where it takes a process for a person's, it draws on stdout when a
    query is slow, in the middle of what `--json` prints."""
    connection = duckdb.connect(config=dict(config or {}))
    connection.execute("SET enable_progress_bar = false")
    return connection


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
