"""The values of a record as JSON: typed where the type fits, and where not, the text that is there.

A corrected line keeps the values of its record in the fields that it leaves out, and what changed
is shown by comparing both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField

from tallyman.engine.expressions.column_names import CORRUPT, KEY, literal, quoted
from tallyman.engine.source import lines
from tallyman.engine.source.lines_input import PARSED, LinesInput, parsed_field
from tallyman.engine.source.source import Input

WRITTEN = "_tm_fields"
"""The names of the fields in a corrected line."""
WHOLE, KEPT, READABLE = "_tm_whole", "_tm_kept", "_tm_readable"
"""All values of a record, those that its corrected line leaves out, and whether it has any."""
PRECISE = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""The form of timestamps, unless their source declares one: by default, Spark writes no
microseconds."""


def own_values(
    lots: Iterable[tuple[Input, DataFrame]], names: list[str], formats: Mapping[str, str]
) -> DataFrame:
    """Write the values of records, which have a column WRITTEN. NULL is left out."""
    return reduce(DataFrame.unionAll, (_values(*lot, names, formats) for lot in lots))


def _values(
    source: Input, rows: DataFrame, names: list[str], formats: Mapping[str, str]
) -> DataFrame:
    texts = dict.fromkeys(names, "CAST(NULL AS STRING)")
    readable = "true"
    if CORRUPT in rows.columns and isinstance(source, LinesInput):
        fields = [StructField(field.name, StringType()) for field in source.positions]
        rows = rows.withColumnRenamed(CORRUPT, lines.TEXT)
        rows = rows.selectExpr("*", f"{source.parsed(fields)} AS {PARSED}")
        texts = {n: f"CASE WHEN {quoted(n)} IS NULL THEN {parsed_field(n)} END" for n in names}
        readable = f"{lines.TEXT} IS NULL OR ({PARSED} IS NOT NULL AND {PARSED}.{CORRUPT} IS NULL)"
    typed = {name: quoted(name) for name in names}
    left_out = {name: f"NOT array_contains({WRITTEN}, {literal(name)})" for name in names}
    kept = [
        {n: f"CASE WHEN {left_out[n]} THEN {one[n]} END" for n in one} for one in (typed, texts)
    ]
    return rows.selectExpr(
        KEY,
        f"{_object([typed, texts], formats)} AS {WHOLE}",
        f"{_object(kept, formats)} AS {KEPT}",
        f"coalesce({readable}, false) AS {READABLE}",
    )


def _object(parts: Iterable[Mapping[str, str]], formats: Mapping[str, str]) -> str:
    """Write one JSON object of the fields of several, which have no name in common."""
    options = ", ".join(literal(w) for pair in (PRECISE | dict(formats)).items() for w in pair)
    inside = []
    for part in parts:
        fields = ", ".join(f"{literal(name)}, {value}" for name, value in part.items())
        inside.append(_inside(f"to_json(named_struct({fields}), map({options}))"))
    return f"concat('{{', concat_ws(',', {', '.join(inside)}), '}}')"


def _inside(text: str) -> str:
    """Write the fields of a JSON object without its braces; NULL if it has none."""
    return f"nullif(regexp_replace({text}, '^[ \\\\t]*[{{]|[}}][ \\\\t\\\\r]*$', ''), '')"


def completed(text: str) -> str:
    """Write a corrected line with the values that its record keeps."""
    return f"concat('{{', concat_ws(',', {_inside(KEPT)}, {_inside(text)}), '}}')"
