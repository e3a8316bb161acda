"""Backward without recomputation: the keys behind a row of an output, from its evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from tallyman.errors import NotFound, UsageError


def contributing_keys(folder: Path, ledger: Mapping[str, Any], row: Mapping[str, str]) -> list[str]:
    """Keys of the records that went into the rows the conditions name."""
    for partition in ledger["output_accounting"]["partitions"]:
        place = folder / partition["adjoint_location"]
        if partition["partition_type"] == "AGGREGATED":
            return _behind_groups(place, row)
        if partition["partition_type"] == "PASS_THROUGH":
            return _behind_rows(place, row, partition.get("key_columns", []))
        if partition["partition_type"] == "EXPLODED":
            return _behind_children(place, row)
    raise NotFound("output of", str(ledger["asset"]))


def _files(place: Path) -> list[str]:
    return [str(p) for p in sorted(place.rglob("*.parquet"))]


def _behind_groups(place: Path, wanted: Mapping[str, str]) -> list[str]:
    files = _files(place)
    if not files:
        return []
    with duckdb.connect() as connection:
        source = "read_parquet($files, hive_partitioning=false)"
        first = f"SELECT to_json(group_key) AS g FROM {source} LIMIT 1"
        found = connection.execute(f"SELECT unnest(json_keys(g)) FROM ({first})", {"files": files})
        known = [row[0] for row in found.fetchall()]
        where, given = _conditions(
            wanted, known, lambda n: f"struct_extract(group_key, {_text(n)})"
        )
        rows = connection.execute(
            f"SELECT source_key FROM {source} WHERE {where} ORDER BY source_key",
            {"files": files, **given},
        ).fetchall()
    return [row[0] for row in rows]


def _behind_rows(place: Path, wanted: Mapping[str, str], key: list[str]) -> list[str]:
    with duckdb.connect() as connection:
        source = "read_parquet($files, hive_partitioning=false)"
        described = connection.execute(f"DESCRIBE SELECT * FROM {source}", {"files": _files(place)})
        known = [row[0] for row in described.fetchall()]
        where, given = _conditions(wanted, known, _quoted)
        own = f"CAST({_quoted(key[0])} AS VARCHAR)" if len(key) == 1 else "NULL"
        rows = connection.execute(
            f"SELECT coalesce(_tm.key, {own}) AS k FROM {source} WHERE {where} ORDER BY k",
            {"files": _files(place), **given},
        ).fetchall()
    return [row[0] for row in rows]


def _behind_children(place: Path, wanted: Mapping[str, str]) -> list[str]:
    if set(wanted) != {"child_key"}:
        raise UsageError("this asset multiplies records: name the row as child_key=PARENT/NUMBER")
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT DISTINCT parent_key FROM read_parquet($files, hive_partitioning=false) "
            "WHERE child_key = $key ORDER BY 1",
            {"files": _files(place), "key": wanted["child_key"]},
        ).fetchall()
    return [row[0] for row in rows]


def _conditions(
    wanted: Mapping[str, str], known: list[str], reference: Callable[[str], str]
) -> tuple[str, dict[str, str]]:
    parts: list[str] = []
    given: dict[str, str] = {}
    for number, (name, value) in enumerate(wanted.items()):
        if name not in known:
            raise UsageError(
                f"there is no column {name!r} to look by; there are {', '.join(known)}"
            )
        if value.lower() == "null":
            parts.append(f"{reference(name)} IS NULL")
        else:
            parts.append(f"CAST({reference(name)} AS VARCHAR) = $v{number}")
            given[f"v{number}"] = value
    return " AND ".join(parts) or "true", given


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"
