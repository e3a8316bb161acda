"""The key of a group as text: a JSON object of its identifying columns, NULLs included."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from tallyman.engine.expressions.column_names import literal, quoted
from tallyman.engine.expressions.columns import as_text

GROUP_KEY, SOURCE_KEY, SOURCE_PLACE = "group_key", "source_key", "source_place"
WHOLE = "_tm_all"
"""The field of the one group if groupBy names no column: a struct needs a field."""
PAIR = "\x1f"
"""The separator between a group and a key, where both are hashed as one."""


def group_text(names: Sequence[str], values: Sequence[str]) -> str:
    """Write the key of a group in SQL, from the values of its columns."""
    if not names:
        return "'{}'"
    each = zip(names, values, strict=True)
    shown = ", ".join(f"{literal(name)}, {as_text(value)}" for name, value in each)
    return f"to_json(named_struct({shown}), map('ignoreNullFields', 'false'))"


def text_of_group(rows: DataFrame) -> str:
    """Write the key of the group that a row of the evidence belongs to."""
    fields = rows.schema[GROUP_KEY].dataType.names  # type: ignore[attr-defined]
    names = [name for name in fields if name != WHOLE]
    return group_text(names, [f"{GROUP_KEY}.{quoted(name)}" for name in names])


def pair(group: str, key: str) -> str:
    return f"concat({group}, {literal(PAIR)}, {key})"
