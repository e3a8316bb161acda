"""Expressions whose value is not the row's and the run's, or that make and drop rows, are refused
before any data is read: with asset, step, expression and what to write instead."""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from tallyman.errors import DefinitionError
from tests.engine.conftest import Workshop
from tests.world.scale import FULL

SOURCES = """
from pyspark.sql import Window
by_id = Window.partitionBy("id").orderBy("t")
tm.source("raw", "data/none", key="id", schema="id string, d date, t timestamp, n int, tags array<int>, now string, status string, place struct<now: int>")
tm.source("places", "data/none", key="place", schema="place string, t timestamp")
"""

REFUSED = {
    # generators, however their name is written
    "explode(tags)": "Frame.explode",
    "`explode`(tags)": "Frame.explode",
    "Explode /* not seen? */ (tags)": "Frame.explode",
    "explode -- not seen?\\n(tags)": "Frame.explode",
    "system.builtin.explode(tags)": "Frame.explode",
    "posexplode_outer(tags)": "Frame.explode",
    "inline(array(struct(1, 2)))": "Frame.explode",
    "stack(2, n, n)": "array(...)",
    "json_tuple(status, 'a')": "get_json_object",
    "window(t, '10 minutes').start": "date_trunc('HOUR', t)",
    "`window`(t, '1 day', '1 hour')": "groupBy that column",
    "session_window(t, '5 minutes')": "withColumn",
    # chance, files, users, Java
    "rand(42)": "derive it from the key",
    "n + `uuid` ()": "derive it from the key",
    "randstr(5)": "derive it from the key",
    "shuffle(tags)[0]": "derive it from the key",
    "monotonically_increasing_id()": "derive it from the key",
    "reflect('java.util.UUID', 'randomUUID')": "Java code",
    "try_reflect('java.util.UUID', 'randomUUID')": "Java code",
    "java_method('java.lang.Math', 'random')": "Java code",
    "input_file_name()": "how Spark reads the files",
    "input_file_block_start()": "how Spark reads the files",
    "concat(current_user(), '!')": "who runs it",
    "user": "who runs it",
    "`session_user`": "who runs it",
    "aes_encrypt(status, 'abcdefghijklmnop')": "initialization vector",
    "identifier('n' || 'ow')()": "write the name itself",
    "(SELECT max(id) FROM range(3))": "join an input",
    "n IN (SELECT 1)": "join an input",
    "_metadata.file_path": "unknown column",
    # the clock in disguise
    "current_time()": "date_format(current_timestamp()",
    "CURRENT_TIME": "date_format(current_timestamp()",
    "TIMESTAMP 'now'": "write current_timestamp()",
    "DATE 'Today'": "write current_timestamp()",
    "cast('now' AS timestamp)": "write current_timestamp()",
    "'yesterday'::date": "write current_timestamp()",
    "to_date('tomorrow')": "write current_timestamp()",
    "t > 'now'": "write current_timestamp()",
    "coalesce(d, 'today')": "write current_timestamp()",
    "date_add('today', 1)": "write current_timestamp()",
    "transform(tags, current_date -> current_date + 1)": "another name",
}
REFUSED_COLUMNS = {
    "F.explode('tags')": "Frame.explode",
    "F.call_function('posexplode', F.col('tags'))": "Frame.explode",
    "F.expr('`stack`(2, n, n)')": "Frame.explode",
    "F.window('t', '10 minutes')": "groupBy that column",
    "F.session_window('t', '10 minutes').getField('start')": "groupBy that column",
    "F.rand(7)": "derive it from the key",
    "F.input_file_name()": "how Spark reads the files",
    "F.reflect(F.lit('java.lang.Math'), F.lit('random'))": "Java code",
    "F.current_user()": "who runs it",
    "F.col('t') > 'now'": "write current_timestamp()",
    "F.lit('today').cast('date')": "write current_timestamp()",
}
IN_OTHER_STEPS = """
@tm.asset(approval=tm.approval("ask", when="max(n) > rand()"))
def an_approval(raw):
    return raw.select("id", "n")

@tm.asset
def a_draw(raw):
    return raw.groupBy("status").agg(x="max(rand())", name="by_status")

@tm.asset
def an_update(raw):
    return raw.update({"n": "uniform(1, n)"}, where="d < 'now'", name="changed")

@tm.asset
def a_delete(raw):
    return raw.delete(where="rand() < 0.5", name="gone")

@tm.asset
def an_aggregate(raw):
    return raw.aggregate(by=["status"], n="sum(n) + spark_partition_id()", where="user = 'me'", name="summed")

@tm.asset
def a_reference(raw, places):
    return raw.select("id", "status AS place").join(places.withColumn("w", "window(t, '1 day')"), "place")

@tm.asset
def a_branch(raw):
    return raw.union(raw.filter("rand() < 1"))
"""
OTHER_STEPS = (
    ("asset an_approval", "approval, when: 'max(n) > rand()' gives another value"),
    ("asset a_draw, step by_status", "'max(rand())' gives another value"),
    ("asset an_update, step changed", "'uniform(1, n)' gives another value"),
    ("asset an_update, step changed", "\"d < 'now'\" turns 'now' into a time"),
    ("asset a_delete, step gone", "'rand() < 0.5' gives another value"),
    ("asset an_aggregate, step summed", "spark_partition_id()' gives another value"),
    ("asset an_aggregate, step summed", "\"user = 'me'\" depends on who runs it"),
    ("asset a_reference, step 10_withColumn", "drops rows without a time"),
    ("asset a_branch, step 10_filter", "'rand() < 1' gives another value"),
)


def test_every_expression_that_cannot_be_accounted_for_is_refused_at_once(
    workshop: Callable[[], Workshop], spark: SparkSession
) -> None:
    written = [f'"{text}"' for text in REFUSED] + list(REFUSED_COLUMNS)
    assets = "".join(
        f"\n@tm.asset\ndef case_{number}(raw):\n    return raw.withColumn('x', {given}, name='made')\n"
        for number, given in enumerate(written)
    )
    with pytest.raises(DefinitionError) as caught:
        workshop(interpreted=not FULL).pipeline(SOURCES + assets + IN_OTHER_STEPS).run()
    found = [
        (", ".join(problem.where.split(", ")[:2]), problem.message)
        for problem in caught.value.problems
    ]
    advice = [*REFUSED.values(), *REFUSED_COLUMNS.values()]
    cases = [(f"asset case_{n}, step made", words) for n, words in enumerate(advice)]
    missing = [
        (where, words, written[int(match[1])] if (match := re.search(r"case_(\d+)", where)) else "")
        for where, words in (*cases, *OTHER_STEPS)
        if not any(place == where and words in message for place, message in found)
    ]
    assert missing == []
    assert {place for place, _ in found} == {where for where, _ in (*cases, *OTHER_STEPS)}
    made = dict(found)
    assert "'`explode`(tags)'" in made["asset case_1, step made"]


ALLOWED = """
@tm.asset(key="id")
def looks_like_it(raw):
    return (
        raw.withColumn("literal", "'current_date() explode(x) rand()'")
        .withColumn("a_column", "concat(now, `now`, place.now)")
        .withColumn("a_word", "if(status IN ('now', 'today'), 'now', upper('today'))")
        .withColumn("a_branch", "CASE WHEN d = current_date THEN 'today' ELSE status END")
        .withColumn("a_comment", "n /* rand() */ -- uuid()")
        .withColumn("a_name", "named_struct('now', 1)")
        .withColumn("a_lambda", "exists(tags, now -> now > 1)")
        .withColumn("a_parsed_time", "unix_timestamp(t)")
        .withColumn("of_columns", F.concat(F.lit("it's now() or rand()"), F.col("now"), F.lit("`user`")))
        .withColumn("a_total", F.sum("n").over(by_id))
        .withColumn("encrypted", "aes_encrypt(status, 'abcdefghijklmnop', 'ECB')")
        .withColumn("user", "status").filter("user IS NULL OR user <> 'x'")
        .withColumn("current_date", "status").withColumn("copied", "upper(current_date)")
        .withColumn("copied_too", F.upper("current_date"))
    )
"""


def test_words_that_only_look_like_such_functions_are_left_alone(
    workshop: Callable[[], Workshop], spark: SparkSession
) -> None:
    made = workshop(interpreted=not FULL).pipeline(SOURCES.replace("data/none", "data") + ALLOWED)
    record = {"id": "a", "d": "2024-01-01", "n": 3, "tags": [1], "now": "N", "status": "s"}
    ran = made.lines("one.json", [record | {"place": {"now": 7}}]).run("looks_like_it")
    assert ran["looks_like_it"].balanced
    [row] = ran.rows("looks_like_it")
    assert row["literal"] == "current_date() explode(x) rand()"
    assert row["a_column"] == "NN7"
    assert (row["a_word"], row["a_branch"], row["a_comment"]) == ("TODAY", "s", 3)
    assert (row["a_lambda"], row["a_total"]) == (False, 3)
    assert row["of_columns"] == "it's now() or rand()N`user`"
    assert (row["current_date"], row["copied"], row["copied_too"]) == ("s", "S", "S")
