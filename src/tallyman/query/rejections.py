"""Dead letters, read by DuckDB from the run folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb

from tallyman.engine.runs import Run

FIELDS = (
    "source_key",
    "error_type",
    "morphism_path",
    "expected",
    "actual",
    "context",
    "run_id",
    "openlineage_run_id",
    "timestamp",
    "error_code",
)


def summary(run: Run, asset: str | None = None) -> list[dict[str, Any]]:
    """Counts by asset, kind and place."""
    found: list[dict[str, Any]] = []
    for target, place in run.places(asset).items():
        path = place / "errors" / "_summary.json"
        if path.exists():
            found += [{"asset": str(target), **row} for row in json.loads(path.read_text("utf-8"))]
    return found


def letters(
    run: Run, *, asset: str | None, key: str | None, kind: str | None, limit: int
) -> tuple[int, list[dict[str, Any]]]:
    """How many match, and the first of them in a stable order."""
    files = [str(file) for place in run.places(asset).values() for file in _files(place)]
    if not files:
        return 0, []
    types = ", ".join(f"{name}: 'VARCHAR'" for name in FIELDS if name != "context")
    source = (
        f"read_json($files, format='newline_delimited', hive_partitioning=false, "
        f"columns={{{types}, context: 'MAP(VARCHAR, VARCHAR)'}})"
    )
    wanted = "($key IS NULL OR source_key = $key) AND ($kind IS NULL OR error_type = $kind)"
    given = {"files": files, "key": key, "kind": kind}
    with duckdb.connect() as connection:
        total = connection.execute(
            f"SELECT count(*) FROM {source} WHERE {wanted}", given
        ).fetchone()
        listed = connection.execute(
            f"SELECT * FROM {source} WHERE {wanted} "
            f"ORDER BY source_key, error_type, morphism_path LIMIT {int(limit)}",
            given,
        )
        names = [column[0] for column in listed.description]
        rows = [dict(zip(names, row, strict=True)) for row in listed.fetchall()]
    return (int(total[0]) if total else 0), rows


def _files(asset: Path) -> list[Path]:
    return sorted((asset / "errors").rglob("*.jsonl"))
