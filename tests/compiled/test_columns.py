"""Columns are written as SQL text that means the same to Spark, or refused with what to write."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from tallyman.engine.expressions.column_text import column_text, name_text
from tallyman.engine.expressions.literal_text import NoText
from tallyman.engine.spark.mode import SparkMode
from tests.world.home import Home
from tests.world.reply import Reply

TABLE = (Path(__file__).parent / "columns.txt").read_text()
NAMES: dict[str, Any] = {"F": F, "T": T, "Window": Window, "datetime": datetime}
SCHEMA = (
    "k int, i int, l bigint, d double, s string, t string, dt date, ts timestamp, b boolean, "
    "arr array<int>, sarr array<string>, m map<string,int>, st struct<x:int,y:string>, js string, "
    "`a b` int, date date"
)
DAY = datetime.date(2024, 5, 17)
MOMENT = datetime.datetime(2024, 5, 17, 13, 14, 15, 161718, datetime.UTC)
ROWS = [
    (1, 1, 2, 0.5, "abc", "abd", DAY, MOMENT, True, [1, 2, 3], ["x", None], {"k": 1},
     (1, "y"), '{"a":1,"b":"z"}', 7, DAY),
    (2, 5, 3, -2.5, " Bob ", "", DAY, MOMENT, False, [4, 5], ["b"], {"q": 2}, (None, "'"),
     "{}", 8, DAY),
    (3, None, 1, math.nan, "12", "12", None, None, None, [2, None], None, {}, None, None,
     None, None),
]  # fmt: skip


def lines(part: int) -> list[str]:
    listed = TABLE.split("---\n")[part].splitlines()
    return [line for line in listed if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def session(spark_server: str) -> Iterator[SparkSession]:
    """A session of the server that the tests share."""
    mode = SparkMode(spark_server)
    mode.enter()
    found = SparkSession.builder.remote(spark_server).create()
    mode.leave()
    yield found
    found.stop()


@pytest.fixture
def rows(session: SparkSession, spark_server: str) -> Iterator[DataFrame]:
    """Three rows with NULLs."""
    mode = SparkMode(spark_server)
    mode.enter()
    yield session.createDataFrame(ROWS, SCHEMA).coalesce(1)
    mode.leave()


def compare(rows: DataFrame, part: int, *, aggregates: bool) -> None:
    """Evaluate both forms of all expressions in one query; if it fails, of each by itself."""
    found = {}
    for line in lines(part):
        column: Column = eval(line, NAMES)
        found[line] = column, column_text(column)
    wrong = _differences(rows, found, aggregates)
    if wrong is None:
        wrong = {
            line: each
            for line, both in found.items()
            if (each := _differences(rows, {line: both}, aggregates)) != {}
        }
    assert wrong == {}, "\n".join(map(repr, wrong.items()))


def _differences(
    rows: DataFrame, found: dict[str, tuple[Column, str]], aggregates: bool
) -> dict[str, Any] | None:
    shape = rows.agg if aggregates else rows.select
    try:
        ours = shape(*(F.expr(sql).alias(f"c{n}") for n, (_, sql) in enumerate(found.values())))
        theirs = shape(*(column.alias(f"c{n}") for n, (column, _) in enumerate(found.values())))
        kinds = [[f.dataType.simpleString() for f in each.schema] for each in (ours, theirs)]
        if kinds[0] != kinds[1]:
            pairs = zip(found.items(), *kinds, strict=True)
            return {line: (sql, a, b) for (line, (_, sql)), a, b in pairs if a != b}
        mine, other = ours.collect(), theirs.collect()
    except Exception as error:
        return None if len(found) > 1 else {line: (b[1], str(error)) for line, b in found.items()}
    return {
        line: (sql, [row[n] for row in mine], [row[n] for row in other])
        for n, (line, (_, sql)) in enumerate(found.items())
        if repr([row[n] for row in mine]) != repr([row[n] for row in other])
    }


def test_columns_mean_the_same_as_their_text(rows: DataFrame) -> None:
    assert len(lines(0)) > 300
    compare(rows, 0, aggregates=False)


def test_aggregates_mean_the_same_as_their_text(rows: DataFrame) -> None:
    compare(rows, 1, aggregates=True)


@pytest.mark.filterwarnings("ignore:WARN WindowExpression")
def test_windows_mean_the_same_as_their_text(rows: DataFrame) -> None:
    compare(rows, 2, aggregates=False)


# ---- refused ---------------------------------------------------------------------------------

REFUSED = {
    'F.col("st").withField("z", F.lit(1))': "write named_struct",
    'F.col("st").dropFields("x")': "write named_struct",
    'F.col("i").isin([])': "write false",
    'F.product("i")': "exp(sum(ln(x)))",
    'F.desc("i")': "belong into the order of a window",
    'F.lit(datetime.datetime(2024, 1, 1)).alias("a", metadata={"x": 1})': "without metadata",
    'F.col("")': "is not the name of a column",
    "Nested": "nested too deeply",
    "5": "expected SQL text or a Column, found int",
    "object()": "found object",
}


@pytest.mark.parametrize("line", REFUSED)
def test_a_column_without_text_is_refused_with_what_to_write(line: str) -> None:
    mode = SparkMode("sc://")
    mode.enter()
    try:
        column = _nested() if line == "Nested" else eval(line, NAMES)
        with pytest.raises(NoText, match=re.escape(REFUSED[line])):
            column_text(column)
    finally:
        mode.leave()


def _nested() -> Column:
    column = F.col("i")
    for _ in range(5_000):
        column = column + 1
    return column


def test_the_text_does_not_depend_on_what_was_made_before() -> None:
    """PySpark numbers the parameters of lambdas through the whole process."""
    mode = SparkMode("sc://")
    mode.enter()
    try:
        texts = {column_text(F.transform("a", lambda x: x + 1)) for _ in range(3)}
    finally:
        mode.leave()
    assert texts == {"transform(a, _p1 -> (_p1 + 1))"}


@pytest.mark.parametrize(
    ("identifier", "text"),
    [
        ("a", "a"),
        ("a.b", "a.b"),
        ("a b", "`a b`"),
        ("`a.b`.c", "`a.b`.c"),
        ("date", "`date`"),
        ("NULL", "`NULL`"),
        ("`a``b`", "`a``b`"),
        ("é", "`é`"),
        ("1a", "`1a`"),
    ],
)
def test_names_are_quoted_where_sql_would_read_something_else(identifier: str, text: str) -> None:
    assert name_text(identifier) == text


# ---- through the command ---------------------------------------------------------------------

PIPELINE = """\
import tallyman as tm
from pyspark.sql import functions as F

tm.source("orders", "data", schema="id int, v int, b string")
tm.source("codes", "codes", schema="code string, label string")
PAID = F.col("b") == "paid"

@tm.asset
def made(orders, codes):
    return (
        orders.filter(PAID & (F.col("v") > 0))
        .withColumn("twice", {column})
        .join(codes, F.col("b") == F.col("code"))
        .groupBy("b").agg(F.sum("twice").alias("total"), n="count(*)")
    )
"""


def compiled(folder: Path, column: str, *, apart: bool = False) -> Reply:
    (folder / "pipelines").mkdir()
    (folder / "tallyman.yaml").write_text("name: columns\n")
    (folder / "pipelines" / "p.py").write_text(PIPELINE.format(column=column))
    return Home(folder, apart=apart).tallyman("compile")


def test_compile_writes_columns_as_text(tmp_path: Path) -> None:
    reply = compiled(tmp_path, 'F.col("v") * 2')
    steps = reply.json["assets"]["made"]["steps"]

    assert steps[0]["filter"]["where"] == "(b = 'paid') AND (v > 0)"
    assert steps[1]["withColumn"]["columns"] == [["twice", "v * 2"]]
    assert steps[2]["join"]["on"] == "b = code"
    assert steps[3]["groupBy"]["agg"] == [["total", "sum(twice)"], ["n", "count(*)"]]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("F.expr(\"reflect('java.lang.Math', 'random')\")", "calls Java code"),
        ("\"`java_method`('java.lang.Math', 'random')\"", "calls Java code"),
        ('"(SELECT max(v) FROM json.`/etc/passwd`)"', "contains a query"),
        ("\"identifier('v')\"", "names a function or column by a string"),
    ],
)
def test_compile_refuses_with_step_and_replacement(
    tmp_path: Path, column: str, message: str
) -> None:
    reply = compiled(tmp_path, column)

    assert reply.code == 2
    [problem] = reply.json["error"]["problems"]
    assert problem["where"] == "asset made, step 20_withColumn, columns"
    assert message in problem["message"]


def test_compile_refuses_a_python_function_where_it_is_made(tmp_path: Path) -> None:
    # PySpark asks the session of this process, if it has one, and a fork of it gets no answer.
    reply = compiled(tmp_path, 'F.udf(lambda v: v, "int")("v")', apart=True)

    assert reply.code == 2
    [problem] = reply.json["error"]["problems"]
    assert problem["where"].startswith("asset made")
    assert "write it with SQL functions" in problem["message"]
