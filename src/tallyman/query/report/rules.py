"""Rejections by rule with a few samples, and filtered records by predicate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.engine.files.duck import connect
from tallyman.engine.readback.dead_letters import READ, files_in

SAMPLES = 3
LONGEST = 300
"""Longer values are cut to this length, and their length is reported."""
REDACTED = "redacted"

RULES = f"""
    SELECT error_type, morphism_path, min(error_code) AS error_code, count(*) AS count,
           min(context['field']) AS field,
           arg_min({{key: left(source_key, {LONGEST}), expected: left(expected, {LONGEST}),
                     actual: left(actual, {LONGEST}), length: length(actual)}},
                   source_key, {SAMPLES}) AS samples
    FROM {READ}
    GROUP BY ALL ORDER BY count DESC, error_type, morphism_path
"""


def rules(places: Iterable[Path], hidden: bool) -> list[dict[str, Any]]:
    """List every rule that rejected records, largest count first; if `hidden`, without values."""
    files = [file for place in places for file in files_in(place)]
    if not files:
        return []
    with connect() as connection:
        found = connection.execute(RULES, {"files": files})
        names = [column[0] for column in found.description]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    return [_without_values(row) for row in rows] if hidden else rows


def _without_values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Hide keys and values: either may come from a redacted column."""
    shown = {"key": REDACTED, "actual": REDACTED, "length": len(REDACTED)}
    return {**row, "samples": [{**sample, **shown} for sample in row["samples"]]}


def filters(places: Sequence[tuple[Path, StoredLedger]]) -> list[dict[str, Any]]:
    """Count filtered records by predicate, from the ledgers of one asset and their folders."""
    found: dict[str, dict[str, Any]] = {}
    for place, ledger in places:
        for part in ledger.partitions:
            if part.fate is not Fate.FILTERED or not part.digest.count:
                continue
            one = found.setdefault(
                part.location,
                {
                    "step": part.step,
                    "description": part.description,
                    "predicate": _predicate(place / part.location),
                    "count": 0,
                },
            )
            one["count"] += part.digest.count
    return sorted(found.values(), key=lambda one: -one["count"])


def _predicate(folder: Path) -> str | None:
    """Read the predicate from the evidence; None if its file is missing or cannot be read."""
    for file in sorted(folder.rglob("*.parquet")):
        try:
            with pq.ParquetFile(file) as opened:
                for batch in opened.iter_batches(1, columns=["filter_predicate"]):
                    return str(batch.column(0)[0].as_py())
        except (OSError, pa.ArrowException):
            return None
    return None
