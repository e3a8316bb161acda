"""Spark's functions that matter for accounting, by name. All that are not listed are functions of
their arguments alone.

`tests/engine/test_spark_functions.py` compares these lists with the functions of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping

CLOCK = frozenset(
    {"current_timestamp", "now", "localtimestamp", "current_date", "curdate", "unix_timestamp"}
)
"""Functions that read the clock; they get the run's time. `unix_timestamp` only without
arguments.
"""

WITHOUT_PARENTHESES = frozenset(
    {"current_timestamp", "current_date", "current_time", "user", "current_user", "session_user"}
)
"""Names that Spark takes for a function if no column has the name, quoted or not."""

_CHANCE = "gives another value each time it is evaluated; derive it from the key"
_FILE = "depends on how Spark reads the files; a value that matters belongs in the records"
_JAVA = "calls Java code that may give another value each time; use Spark's own functions"
_USER = "depends on who runs it; write the name as text"
_OF_DAY = (
    "gives a TIME, which has no fixed value in a run; "
    "write date_format(current_timestamp(), 'HH:mm:ss')"
)
_SKETCH = "draws at random which values it keeps; use percentile_approx"

JAVA: Mapping[str, str] = dict.fromkeys(("reflect", "java_method", "try_reflect"), _JAVA)
"""Functions that reach outside Spark."""

UNSTABLE: Mapping[str, str] = {
    **dict.fromkeys(("rand", "randn", "random", "uuid", "shuffle", "randstr", "uniform"), _CHANCE),
    **dict.fromkeys(("monotonically_increasing_id", "spark_partition_id"), _CHANCE),
    **JAVA,
    **dict.fromkeys(
        ("input_file_name", "input_file_block_start", "input_file_block_length"), _FILE
    ),
    **dict.fromkeys(("current_user", "session_user", "user"), _USER),
    **dict.fromkeys(("current_time", "localtime"), _OF_DAY),
    **{
        f"kll_{verb}_{kind}": _SKETCH
        for verb in ("sketch_agg", "merge_agg", "sketch_merge")
        for kind in ("bigint", "double", "float")
    },
}
"""Functions that depend on more than the row and the run: the reason, and what to write instead."""

_EXPLODE = "makes several rows of one; use Frame.explode"
_WINDOW = (
    "drops rows without a time and may make several of one; compute where the window begins with "
    "withColumn, as timestamp_seconds(floor(unix_seconds(t) / 600) * 600) or date_trunc('HOUR', t),"
    " and groupBy that column"
)
GENERATORS: Mapping[str, str] = {
    **dict.fromkeys(("explode", "explode_outer", "posexplode", "posexplode_outer"), _EXPLODE),
    **dict.fromkeys(("variant_explode", "variant_explode_outer"), _EXPLODE),
    **dict.fromkeys(
        ("inline", "inline_outer"), f"{_EXPLODE}, then select the fields of its elements"
    ),
    "stack": "makes several rows of one; put the values into array(...) and use Frame.explode",
    "json_tuple": "makes columns by making rows; use get_json_object or from_json",
    **dict.fromkeys(("window", "session_window", "window_time"), _WINDOW),
}
"""Functions that make or drop rows: why an expression cannot use them, and what to write
instead.
"""

TABLES = frozenset({"range", "collations", "sql_keywords", "python_worker_logs"})
"""Functions used in place of a table; Spark itself refuses them in an expression."""
