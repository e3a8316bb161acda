"""Names of the columns that the engine adds, and how names and texts are quoted in SQL."""

from __future__ import annotations

HIDDEN = "_tm_"
"""The prefix of columns that the engine carries; a user's column may not begin with it."""

KEY = "_tm_key"
PART = "_tm_part"
REJECTIONS = "_tm_rejections"
PLACE = "_tm_place"
"""The place of a record, `input@file#number`; carried if keys do not distinguish records."""
CORRUPT = "_tm_corrupt"
UNFIT = "_tm_unfit"
"""The values of a record that no output can hold, as texts by column; NULL if there are none."""
SYSTEM = "_tm"
"""Our only column in an output file: NULL unless the row's key is not among its columns."""

SOURCES = "sources"
"""The field of SYSTEM, for rows that are groups, with count and digest of each group's rows."""

ELEMENT = "_tm_element"
"""A value inside an array, in an expression over each of them."""

LIVE = 0
ERROR = 1


def is_ours(name: str) -> bool:
    """True if a column is the engine's. Case does not matter: DuckDB ignores it."""
    return name.lower() == SYSTEM or name.lower().startswith(HIDDEN)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Write a text in Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
