"""Redacted columns: files of a run contain only keyed hashes of their values.

The same value has the same hash in every run of a project, so records can be distinguished, and
found by anybody who knows the value and has the project's key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tallyman.domain.account.redaction import BEGINS, LENGTH, covers
from tallyman.engine.expressions.column_names import literal
from tallyman.engine.expressions.columns import as_text
from tallyman.engine.spark.failure import said_plainly

_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")


@dataclass(frozen=True, slots=True)
class Redaction:
    """The columns for which only a keyed hash is kept; `*` stands for all."""

    columns: frozenset[str] = frozenset()
    key: str = field(default="", repr=False)

    def covers(self, name: str) -> bool:
        return covers(self.columns, name)

    def covers_any(self, names: Iterable[str]) -> bool:
        return any(map(self.covers, names))

    def value(self, name: str, value: str) -> str:
        """Redact a value in a trace; values of different types have different hashes."""
        if not self.covers(name):
            return value
        text = f"to_json(named_struct('v', {value}))"
        return f"CASE WHEN {value} IS NOT NULL THEN {self.text(text)} END"

    def shown(self, name: str, value: str) -> str:
        """Write in SQL the text of a column's value, or its hash if redacted. NULL stays NULL."""
        text = as_text(value)
        return self.text(text) if self.covers(name) else text

    def text(self, text: str) -> str:
        """Write in SQL the hash of a text."""
        hashed = f"sha2(concat({literal(self.key)}, '|', {text}), 256)"
        return f"concat({literal(BEGINS)}, substring({hashed}, 1, {LENGTH}))"

    def reason(self, error: Exception, limit: int = 500) -> str:
        """Return the first line of an error, or only its kind if it may quote a redacted value."""
        said = said_plainly(error, limit)
        if not self.columns:
            return said
        kind = _ERROR_CLASS.search(said)
        named = kind.group(1) if kind else type(error).__name__
        return f"{named}: its message may show redacted values"
