"""Every function Spark has is known for what it does to a row's account.

A function that a new Spark brings is in none of the lists: this file fails until somebody has read
what it does, and put its name into one of `tallyman.engine.expressions.functions` or into the text
file.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tallyman.engine.expressions.functions import CLOCK, GENERATORS, TABLES, UNSTABLE

# Functions of their arguments and of the session, which the manifest binds.
DETERMINISTIC = set((Path(__file__).parent / "deterministic_functions.txt").read_text().split())
# Aggregates whose result may depend on the order in which rows meet; docs/reference/frame.md
# says what to do about it.
OF_ORDER = {
    *("any_value", "approx_top_k", "approx_top_k_estimate", "array_agg", "collect_list"),
    *("collect_set", "collect_union", "first", "first_value", "last", "last_value", "listagg"),
    *("max_by", "min_by", "mode", "string_agg"),
}
LISTS = (CLOCK, set(UNSTABLE), set(GENERATORS), TABLES, OF_ORDER, DETERMINISTIC)
SUSPICIOUS = re.compile(
    r"non-?determin|at the start of query|current (date|time|timestamp) |user name|random(?!ize)"
    r"|with reflection|being read|multiple rows|into a relational|into `n` rows|window given",
    re.I,
)
# The check asks for the vector that `aes_encrypt` would draw; `count_min_sketch` takes its seed;
# `make_timestamp_ltz` speaks of a "current timestamp" and means its arguments.
MEANT_OTHERWISE = {
    *("aes_encrypt", "count_min_sketch"),
    *("make_timestamp", "make_timestamp_ltz", "try_make_timestamp_ltz"),
}


@pytest.fixture(scope="module")
def described(spark: SparkSession) -> dict[str, str]:
    """The functions whose name is a word, with what Spark says of each."""
    names = [row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect() if row[0][0].isalpha()]
    assert len(names) > 400
    return {
        name: "\n".join(r[0] for r in spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect())
        for name in names
    }


def test_every_function_of_spark_is_in_exactly_one_list(described: dict[str, str]) -> None:
    assert set(described) - set().union(*LISTS) == set()
    every = [name for each in LISTS for name in each]
    assert {name for name in every if every.count(name) > 1} == set()


def test_no_function_that_spark_warns_of_counts_as_deterministic(described: dict[str, str]) -> None:
    warned = {name for name, text in described.items() if SUSPICIOUS.search(text)}
    assert {"rand", "now", "explode", "reflect", "input_file_name", "first", "user"} <= warned
    assert warned & DETERMINISTIC <= MEANT_OTHERWISE


def test_two_names_of_one_function_are_in_one_list(described: dict[str, str]) -> None:
    """`Class:` is what Spark evaluates, whatever it is called by."""
    lists_of: dict[str, set[int]] = {}
    for name, text in described.items():
        if found := re.search(r"^Class: (\S+)$", text, re.M):
            where = next(n for n, each in enumerate(LISTS) if name in each)
            lists_of.setdefault(found.group(1), set()).add(where)
    assert {name for name, where in lists_of.items() if len(where) > 1} == set()


def test_functions_without_arguments_differ_from_query_to_query_only_if_they_read_the_clock(
    spark: SparkSession, described: dict[str, str]
) -> None:
    rows = spark.range(1)
    asked = [name for name in (*CLOCK, *DETERMINISTIC) if _stands_alone(rows, name, described)]
    assert set(asked) >= CLOCK
    listed = [F.expr(f"`{name}`()").cast("string").alias(name) for name in asked]
    first, second = (rows.select(*listed).first() for _ in range(2))
    assert first is not None
    assert second is not None
    differing = {name for name in asked if first[name] != second[name]}
    assert {"now", "current_timestamp"} <= differing <= CLOCK


def _stands_alone(rows: DataFrame, name: str, described: dict[str, str]) -> bool:
    """True if it can be called without arguments on a row."""
    if f"{name}()" not in described.get(name, "").lower() and name not in CLOCK:
        return False
    try:
        _ = rows.select("id", F.expr(f"`{name}`()")).schema
    except PySparkException:
        return False
    return True
