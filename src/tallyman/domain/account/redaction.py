"""What must not be shown: the columns that settings name, and errors that may quote a row."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

ALL = "*"
"""Stands for every column."""
BEGINS, LENGTH = "redacted:", 32
"""What stands in the place of a value: this, and so many digits of its keyed hash."""

NUMBERS_ONLY = frozenset(
    {
        "canceled",
        "conflict",
        "dependency_not_ready",
        "empty_input",
        "input_changed",
        "input_missing",
        "interrupted",
        "not_run",
        "rows_outside_partition",
        "rows_unaccounted_for",
        "schema_changed",
        "storage_failed",
        "structural_error",
        "threshold_exceeded",
    }
)
"""Codes of errors whose text shows no values of rows: names and counts. Others may show a key, a
line, or what Spark stumbled over."""


def covers(redacted: Collection[str], name: str) -> bool:
    """Whether a column is among those that are redacted, whatever the case of its name."""
    lowered = {each.lower() for each in redacted}
    return ALL in lowered or name.lower() in lowered


def hashed(key: str, text: str) -> str:
    """What stands in the place of a text. Spark and DuckDB compute the same."""
    return BEGINS + hashlib.sha256(f"{key}|{text}".encode()).hexdigest()[:LENGTH]


def without_redacted(redacted: Collection[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by column, for people to see."""
    return {
        name: "redacted" if value is not None and covers(redacted, name) else value
        for name, value in values.items()
    }


def without_values(error: Mapping[str, object]) -> Mapping[str, object]:
    """Reduce an error that may quote a row to its kind and what to do."""
    code = str(error.get("code", "error"))
    if code in NUMBERS_ONLY:
        return error
    kept = ("code", "retryable", "hint", "operation_order")
    shown = {name: error[name] for name in kept if name in error}
    return {**shown, "message": f"{code}: what it says may show values that are redacted"}
