"""Redaction: columns that the settings name, and errors that may quote a row."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

ALL = "*"
"""The name that stands for every column."""
BEGINS, LENGTH = "redacted:", 32
"""The prefix of a redacted value, and how many digits of its keyed hash follow."""

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
"""Codes of errors with only names and counts in their text. Other errors may show a key, a line of
input, or a value that Spark could not handle.
"""


def covers(redacted: Collection[str], name: str) -> bool:
    """True if a column is redacted; upper and lower case are equal."""
    lowered = {each.lower() for each in redacted}
    return ALL in lowered or name.lower() in lowered


def hashed(key: str, text: str) -> str:
    """Compute what replaces a text. Spark and DuckDB compute the same."""
    return BEGINS + hashlib.sha256(f"{key}|{text}".encode()).hexdigest()[:LENGTH]


def without_redacted(redacted: Collection[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace redacted values for display."""
    return {
        name: "redacted" if value is not None and covers(redacted, name) else value
        for name, value in values.items()
    }


def without_values(error: Mapping[str, object]) -> Mapping[str, object]:
    """Reduce an error that may quote a row to its code and its hint."""
    code = str(error.get("code", "error"))
    if code in NUMBERS_ONLY:
        return error
    kept = ("code", "retryable", "hint", "operation_order")
    shown = {name: error[name] for name in kept if name in error}
    return {**shown, "message": f"{code}: its message may show redacted values"}
