"""The key of a group as text: a JSON object of its identifying columns, NULLs included."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tallyman.engine.expressions.columns import as_text

GROUP_KEY, SOURCE_KEY, SOURCE_PLACE = "group_key", "source_key", "source_place"
WHOLE = "_tm_all"
"""The field of the one group if groupBy names no column: a struct needs a field."""
PAIR = "\x1f"
"""The separator between a group and a key, where both are hashed as one."""


def group_text(names: Sequence[str], values: Sequence[Column]) -> Column:
    shown = [as_text(value).alias(n) for n, value in zip(names, values, strict=True)]
    return F.to_json(F.struct(*shown), {"ignoreNullFields": "false"}) if shown else F.lit("{}")


def text_of_group(rows: DataFrame) -> Column:
    """Compute the key of the group that a row of the evidence belongs to."""
    fields = rows.schema[GROUP_KEY].dataType.names  # type: ignore[attr-defined]
    names = [name for name in fields if name != WHOLE]
    return group_text(names, [F.col(GROUP_KEY).getField(name) for name in names])


def pair(group: Column, key: Column) -> Column:
    return F.concat(group, F.lit(PAIR), key)
