"""References between tables, checked as a whole before a rollback is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import duckdb

from tallyman.domain.version.table import Reference
from tallyman.engine.files.duck import connect
from tallyman.engine.table.file import read_files
from tallyman.engine.table.rules import miscount, miscounted, shown
from tallyman.engine.table.state import Held
from tallyman.engine.table.values import arrow_schema
from tallyman.errors import MutationRefused

SAMPLES = 5


def check_references(held: Mapping[str, Held]) -> None:
    """Raise MutationRefused if a row refers to a missing key; only for tables in `held`."""
    with connect() as connection:
        for name, one in held.items():
            for reference in one.table.references:
                if reference.table not in held:
                    continue
                target = held[reference.table]
                connection.register("refers", _column(one, reference.column))
                connection.register("keys", _column(target, reference.to))
                found = connection.execute(
                    "SELECT value, count(*) FROM refers WHERE value IS NOT NULL "
                    "AND value NOT IN (SELECT value FROM keys WHERE value IS NOT NULL) "
                    "GROUP BY value ORDER BY value"
                ).fetchall()
                if found:
                    to = f"{reference.table}.{reference.to}"
                    samples = [
                        f"{reference.column} = {shown(value)} is not in {to}"
                        for value, _ in found[:SAMPLES]
                    ]
                    raise MutationRefused(name, "reference", sum(n for _, n in found), samples)
                if reference.counts:
                    _check_counts(connection, name, reference)


def _check_counts(connection: duckdb.DuckDBPyConnection, name: str, reference: Reference) -> None:
    alike = replace(reference, column="value", to="value")
    found = connection.execute(f"{miscounted('refers', 'keys', alike)} ORDER BY 1").fetchall()
    if found:
        samples = [miscount(name, reference, *row) for row in found[:SAMPLES]]
        raise MutationRefused(name, f"the number of {reference.column}", len(found), samples)


def _column(held: Held, column: str) -> object:
    paths = [path for listed in held.fragments.values() for path in listed]
    return read_files(paths, arrow_schema(held.table), [column]).rename_columns(["value"])
