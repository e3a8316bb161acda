"""Mistakes in a definition are found before any data is read, all of them at once."""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tallyman as tm
from tallyman.control.compile import load
from tallyman.errors import DefinitionError, Problem, UnaccountableOperation, UsageError
from tests.engine.conftest import Workshop

SOURCES = """
tm.source("orders", "data/none", schema="id string, customer string, price int, tags array<int>", key="id")
tm.source("customers", "data/none", schema="customer string, country string", key="customer")
tm.source("numbers", "data/none", schema="customer int, n int", key="customer")
"""


def problems_of(made: Workshop) -> list[Problem]:
    """What is wrong with the project; asserts that finding it left nothing behind."""
    with pytest.raises(DefinitionError) as caught:
        made.run()
    assert not (made.home / "runs").exists()
    assert caught.value.exit_code == 2
    assert all(str(problem) in str(caught.value) for problem in caught.value.problems)
    return list(caught.value.problems)


def told(found: list[Problem], where: str, words: str, nearest: str | None = None) -> bool:
    return any(
        p.where == where and words in p.message and (nearest is None or p.nearest == nearest)
        for p in found
    )


PLANS = """
@tm.asset
def a_filter(orders):
    return orders.filter("prise > 3", name="cheap").withColumn("x", "1").filter(F.col("custmer") == "a")

@tm.asset
def a_select(orders):
    return orders.select("id", "pric").select("country")

@tm.asset
def a_drop(orders):
    return orders.drop("tag").withColumnRenamed("idd", "x").dropDuplicates(["custoner"]).explode("tagz")

@tm.asset
def a_group(orders):
    return orders.groupBy("custome").agg(total="sum(prize)")

@tm.asset
def a_join(orders, customers, numbers):
    return (
        orders.join(customers, "client", name="by_client").join(numbers, "customer", name="by_number")
        .join(customers, "customer = customer", name="twice")
    )

@tm.asset
def a_theta(orders, customers):
    return orders.join(customers, F.col("price") > F.col("country"), name="theta")

@tm.asset
def a_reference(orders, customers):
    return orders.join(customers.expect("known", "country IS NOT NULL"), "customer", name="checked")

@tm.asset(key="orderid")
def a_key(orders):
    return orders.select("id AS order_id")

@tm.asset
def a_generator(orders):
    return orders.select("id", "explode(tags) AS tag").withColumn("y", F.explode("tags"))

@tm.asset
def a_random(orders):
    return orders.withColumn("r", "rand()").filter(F.rand() > 0.5).withColumn("u", F.expr("uuid()"))

@tm.asset
def a_union(orders):
    return orders.groupBy("customer").count().union(orders.select("customer", "price"))

@tm.asset
def a_union_of_children(orders):
    return orders.unionByName(orders.explode("tags", "tag").drop("tags").withColumnRenamed("tag", "tags"))

@tm.asset
def a_wide_union(orders, customers):
    return orders.union(customers)

@tm.asset
def a_reserved(orders):
    return orders.withColumn("_tm_x", "1").withColumnRenamed("price", "_TM_price")

@tm.asset
def two_names(orders):
    return orders.filter("price > 1", name="same").filter("price > 2", name="same")

@tm.asset
def two_columns(orders):
    return orders.select("id", "price AS ID")

@tm.asset
def a_type(orders):
    return orders.filter("price").withColumn("m", "sum(price)")

@tm.asset
def a_text(orders):
    return orders.filter("price >")

@tm.asset
def a_limit(orders):
    return orders.limit(10)

@tm.asset
def a_nothing(orders):
    pass

@tm.asset
def a_crash(orders):
    return orders.filter()

@tm.asset
def a_word(orders):
    return orders.join(orders, "id", how="outer")
"""


def test_all_mistakes_in_plans_are_told_at_once(
    workshop: Callable[[], Workshop], spark: SparkSession
) -> None:
    found = problems_of(workshop().pipeline(SOURCES + PLANS))
    expected = [
        ("a_filter, step cheap", "unknown column 'prise'", "price"),
        ("a_filter, step 30_filter", "unknown column 'custmer'", "customer"),
        ("a_select, step 10_select", "unknown column 'pric'", "price"),
        ("a_select, step 20_select", "unknown column 'country'", None),
        ("a_drop, step 10_drop", "unknown column 'tag'", "tags"),
        ("a_drop, step 20_withColumnRenamed", "unknown column 'idd'", "id"),
        ("a_drop, step 30_dropDuplicates", "unknown column 'custoner'", "customer"),
        ("a_drop, step 40_explode", "unknown column 'tagz'", "tags"),
        ("a_group, step 10_groupBy", "unknown column 'custome'", "customer"),
        ("a_join, step by_client", "unknown column 'client'", None),
        ("a_join, step by_number", "'customer' is string but 'customer' is int", None),
        ("a_join, step twice", "both sides have a column 'customer'", None),
        ("a_theta, step theta, on", "join on equality of columns", None),
        ("a_reference, step checked", "a reference has no ledger", None),
        ("a_key", "bad key: the result has no column 'orderid'", "order_id"),
        ("a_generator, step 10_select", "use Frame.explode", None),
        ("a_generator, step 20_withColumn", "use Frame.explode", None),
        ("a_random, step 10_withColumn", "another value each time", None),
        ("a_random, step 20_filter", "another value each time", None),
        ("a_random, step 30_withColumn", "another value each time", None),
        ("a_union, step 20_union", "grouped or multiplied before", None),
        ("a_union_of_children, step 10_union", "grouped or multiplied before", None),
        ("a_wide_union, step 10_union", "", None),
        ("a_reserved, step 10_withColumn", "'_tm_x': names that begin with '_tm_'", None),
        ("a_reserved, step 20_withColumnRenamed", "'_TM_price'", None),
        ("two_names, step same", "two steps are named 'same'", None),
        ("two_columns", "two columns named 'id'", None),
        ("a_type, step 10_filter", "", None),
        ("a_type, step 20_withColumn", "use groupBy(...).agg(...)", None),
        ("a_text, step 10_filter", "", None),
        ("a_limit", "Frame.limit cannot be accounted for row by row. Use filter", None),
        ("a_nothing", "must return a Frame, not NoneType", None),
        ("a_crash", "TypeError", None),
        ("a_word", "how is 'inner' or 'left', not 'outer'", None),
    ]
    missing = [e for e in expected if not told(found, f"asset {e[0]}", e[1], e[2])]
    assert missing == []
    assert {p.where for p in found} == {f"asset {e[0]}" for e in expected}
    assert not any("_tm_probe" in p.message for p in found)


def test_all_mistakes_in_sources_are_told_at_once(
    workshop: Callable[[], Workshop], spark: SparkSession
) -> None:
    text = """
tm.source("unparsed", "data/none", schema="id string, price integr(4")
tm.source("keyless", "data/none", schema="id string, order_no int", key="order_nr")
tm.source("twice", "data/none", schema="id string, ID int", key="id")
tm.source("reserved", "data/none", schema="_tm_x string, id int, `_tm` int", key="id")
tm.source("lossy", "data/none", schema="id string", options={"mode": "DROPMALFORMED"})

@tm.asset
def a(unparsed, keyless, twice, reserved, lossy):
    return unparsed
"""
    found = problems_of(workshop().pipeline(text))
    assert told(found, "source unparsed", "the schema does not parse")
    assert told(found, "source keyless", "bad key: there is no column 'order_nr'", "order_no")
    assert told(found, "source twice", "column 'id' is declared twice")
    assert told(found, "source reserved", "'_tm_x'")
    assert told(found, "source reserved", "'_tm'")
    assert told(found, "source lossy", "'mode' could lose records")


def test_the_graph_is_checked_whole(workshop: Callable[[], Workshop], spark: SparkSession) -> None:
    text = (
        SOURCES
        + """
@tm.asset
def one(ordrs):
    return ordrs

@tm.asset
def two(three):
    return three

@tm.asset
def three(two):
    return two

@tm.asset
def orders(customers):
    return customers
"""
    )
    found = problems_of(workshop().pipeline(text))
    assert told(found, "asset one", "unknown input 'ordrs'", "orders")
    assert any("cycle" in p.message and "two" in p.message and "three" in p.message for p in found)
    assert told(found, "asset orders", "the name 'orders' is declared twice")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ('tm.source("x", "p", format="avro", schema="a int")', "format is one of json"),
        ('tm.source("x", "p", format="orc")', "does not number the rows of ORC files"),
        ('tm.source("x", "p", format="xml", schema="a int")', "would swallow records silently"),
        ('tm.source("x", "p", format="iceberg")', "rows that the table deleted"),
        ('tm.source("x", "p")', "needs a schema"),
        ('tm.source("../x", "p", schema="a int")', "use letters, digits"),
        (
            'tm.source("x", "p", schema="a int", options={"multiLine": True})',
            "one record is one line",
        ),
        ('tm.asset(evidence="some")(lambda: None)', "evidence is 'keys' or 'digest'"),
        ('tm.asset(name="a", thresholds="lenient")(lambda: None)', "thresholds"),
        ("", "no source and no asset is declared"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    workshop: Callable[[], Workshop], text: str, words: str
) -> None:
    found = problems_of(workshop().pipeline(text))
    assert any("p.py" in p.where or p.where == "pipelines/*.py, *.yaml, *.json" for p in found)
    assert words in str(found[0])


@pytest.mark.parametrize(
    ("operation", "alternative"),
    [
        (lambda f: f.limit(5), "Use filter"),
        (lambda f: f.sample(0.1), "hash of the key"),
        (lambda f: f.rdd, "withColumn"),
        (lambda f: f.mapInPandas(None, "a int"), "withColumn with SQL functions"),
        (lambda f: f.distinct(), "dropDuplicates"),
        (lambda f: f.collect(), "read the output"),
        (lambda f: f.dropna(), "IS NOT NULL"),
        (lambda f: f.crossJoin(f), "expand"),
        (lambda f: f.orderBy("a"), "no order"),
        (lambda f: f.write, "engine writes"),
        (lambda f: f.withColum("a", "b"), "Did you mean 'withColumn'?"),
        (lambda f: f.pivot, "A Frame has: "),
        (lambda f: f["a"], "F.col(name)"),
        (lambda f: list(f), "An asset only describes"),
    ],
)
def test_what_cannot_be_accounted_for_names_the_alternative(
    operation: Callable[[tm.Frame], object], alternative: str
) -> None:
    with pytest.raises(UnaccountableOperation) as caught:
        operation(tm.Frame("orders"))
    assert alternative in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "step",
    [
        lambda f: f.join(f, "a", how="cross"),
        lambda f: f.join(f, "a", unmatched="keep"),
        lambda f: f.join(f, "a", fanout="first"),
        lambda f: f.join("customers", "a"),
        lambda f: f.groupBy("a").agg(),
        lambda f: f.groupBy("a").agg("sum(x)"),
        lambda f: f.groupBy(lambda: 1),
        lambda f: f.expect("two words", "a > 1"),
        lambda f: f.filter("a > 1", name="../up"),
        lambda f: f.expect("r", "a > 1", severity="loud"),
        lambda f: f.expect("r", "a > 1", severity="warn", code="X"),
    ],
)
def test_a_wrong_argument_is_refused_where_it_stands(
    step: Callable[[tm.Frame], object],
) -> None:
    with pytest.raises(UsageError):
        step(tm.Frame("orders"))


def test_a_project_without_pipelines_says_so(workshop: Callable[[], Workshop]) -> None:
    assert told(problems_of(workshop()), "pipelines", "does not exist")


def test_a_folder_without_a_project_says_so(tmp_path: Path) -> None:
    with pytest.raises(tm.TallymanError, match=r"no tallyman\.yaml"):
        tm.Project.open(tmp_path)


def test_an_edit_in_the_same_second_is_read_though_its_size_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own cache of compiled files tells neither."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "pipelines" / "p.py"
    file.parent.mkdir()
    for name in ("first", "other"):
        file.write_text(f'import tallyman as tm\n\ntm.source("{name}", "data", schema="id int")\n')
        os.utime(file, (10**9, 10**9))
        assert list(load.load(file.parent).sources) == [name]
