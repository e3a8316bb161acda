"""Why records left the flow: rejections by rule with a few samples, and filters by predicate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from tallyman.engine.duck import connect
from tallyman.engine.letters import READ, files_in

SAMPLES = 3
LONGEST = 300
"""Of a value that is carried on: what is longer is cut, and its length told."""
REDACTED = "redacted"
AT_THE_DOOR = ("type_cast_error", "null_error")
"""Rejections whose value is that of one named column, and of no other."""

RULES = f"""
    SELECT error_type, morphism_path, min(error_code) AS error_code, count(*) AS count,
           min(context['field']) AS field,
           arg_min({{key: left(source_key, {LONGEST}), expected: left(expected, {LONGEST}),
                     actual: left(actual, {LONGEST}), length: length(actual)}},
                   source_key, {SAMPLES}) AS samples
    FROM {READ}
    GROUP BY ALL ORDER BY count DESC, error_type, morphism_path
"""


def rules(
    places: Iterable[Path], redacted: Sequence[str], keys: Sequence[str]
) -> list[dict[str, Any]]:
    """Every rule that rejected something, the busiest first. `keys` are the columns of the keys."""
    files = [file for place in places for file in files_in(place)]
    if not files:
        return []
    with connect() as connection:
        found = connection.execute(RULES, {"files": files})
        names = [column[0] for column in found.description]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    hidden_key = bool(set(keys) & set(redacted))
    return [_without_secrets(row, redacted, hidden_key) for row in rows]


def _without_secrets(
    row: dict[str, Any], redacted: Sequence[str], hidden_key: bool
) -> dict[str, Any]:
    """Where columns are redacted, a value is shown only if it can be none of theirs."""
    known = row["error_type"] in AT_THE_DOOR and row["field"] not in redacted
    hidden = bool(redacted) and not known
    samples = []
    for sample in row["samples"]:
        shown = dict(sample)
        if hidden:
            shown |= {"actual": REDACTED, "length": len(REDACTED)}
        samples.append(shown | ({"key": REDACTED} if hidden_key else {}))
    return {**row, "samples": samples}


def filters(places: Sequence[tuple[Path, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """What was filtered by which predicate; ledgers of one asset, with their folders."""
    found: dict[str, dict[str, Any]] = {}
    for place, ledger in places:
        for part in ledger["output_accounting"]["partitions"]:
            if part["partition_type"] != "FILTERED" or not part["record_count"]:
                continue
            location = part["adjoint_location"]
            one = found.setdefault(
                location,
                {
                    "step": Path(location).stem,
                    "description": part["description"],
                    "predicate": _predicate(place / location),
                    "count": 0,
                },
            )
            one["count"] += part["record_count"]
    return sorted(found.values(), key=lambda one: -one["count"])


def _predicate(folder: Path) -> str | None:
    """As evidence has it; None when its file is gone or cannot be read any more."""
    for file in sorted(folder.rglob("*.parquet")):
        try:
            with pq.ParquetFile(file) as opened:
                for batch in opened.iter_batches(1, columns=["filter_predicate"]):
                    return str(batch.column(0)[0].as_py())
        except (OSError, pa.ArrowException):
            return None
    return None
