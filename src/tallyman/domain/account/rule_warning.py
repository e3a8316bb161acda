"""Warnings: rules that rows broke without being rejected."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWarning:
    """How many rows broke a rule of severity `warn`, and the key of one of them."""

    rule: str
    step: str
    expected: str
    count: int
    example: str | None = None
    of_records: bool = True
    """False if the rows are groups or children of records."""

    def __str__(self) -> str:
        what = "record(s)" if self.of_records else "row(s)"
        example = f", such as {self.example}" if self.example is not None else ""
        return f"{self.count:,} {what} break {self.rule} ({self.expected}){example}"
