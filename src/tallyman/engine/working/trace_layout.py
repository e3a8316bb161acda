"""The layout of a trace: which column of its files holds what, written next to the files. Those who
read a trace take the same constants from here; this module needs no Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Path = list[str]
"""A column, or a field within one."""

FORMAT = 2
STEPS = "steps.json"
"""The file in a trace that lists the steps as they were."""
LOW = 62
"""The bits of a row id that are derived from the key, a number in the files; those before them are
the same in all rows of a file."""
WORD = 60
"""The number of marks in one column of marks: they stay positive in 64 bits."""


@dataclass(frozen=True, slots=True)
class TraceLayout:
    """The trace of the rows of one member in one segment. `row` is the column of the trace."""

    row: str
    words: int
    """The number of columns with marks."""
    content: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.row}.id"

    @property
    def marks(self) -> list[str]:
        return [f"{self.row}.{mark(word)}" for word in range(self.words)]


def mark(word: int) -> str:
    """The field with the marks of a row: a bit for each column that a step changed."""
    return f"marks_{word}"
