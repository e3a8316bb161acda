"""Every verb of a Frame gives the rows, the names and the types that PySpark gives.

The right side of each pair is plain PySpark on the same files, written without looking at the engine.
"""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

import json
from collections.abc import Callable, Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tests.engine.conftest import Ran, Workshop, bag, shape
from tests.world.scale import FULL

ORDERS = (
    "id string, customer string, day date, amount decimal(10,2), qty int, ok boolean, "
    "tags array<string>, place struct<city:string,zip:int>"
)
CUSTOMERS = "customer string, country string, since int"
RATES = "country string, rate double, valid string"

PIPELINE = f"""
tm.source("orders", "data/orders", schema="{ORDERS}", key="id")
tm.source("customers", "data/customers.csv", format="csv", schema="{CUSTOMERS}", key="customer")
tm.source("rates", "data/rates", format="parquet", schema="{RATES}")

ANY = dict(thresholds=dict(absolute=0, percentage=1))

@tm.asset(**ANY)
def selected(orders):
    return orders.filter("ok").select(
        "id", F.col("amount").cast("string"), "qty * 2 AS twice", "place.city AS town", "upper(customer)",
        F.col("qty").alias("n"), "tags", "place.*", "get(tags, 0)",
    )

@tm.asset(**ANY)
def narrowed(orders):
    return orders.select(F.col("*"), "qty + 1 AS more").drop("tags", "place").withColumnRenamed("id", "order_id").withColumnRenamed("qty", "n")

@tm.asset(**ANY)
def widened(orders):
    return (
        orders.withColumn("QTY", "coalesce(qty, 0) + 1")
        .withColumns({{"month": F.trunc("day", "month"), "amount": "amount * 2"}})
        .withColumn("id", "concat('x', id)")
        .withColumn("dotted.name", F.lit(1))
    )

@tm.asset(**ANY)
def filtered(orders):
    return (
        orders.filter("qty > 1").where(F.col("ok")).filter("amount IS NOT NULL", reason="no amount")
        .expect("positive", "qty > 0").expect("named", F.col("customer") != "c3", code="NO_C3")
    )

@tm.asset(**ANY)
def joined_error(orders, customers):
    return orders.select("id", "customer", "qty").join(customers, "customer")

@tm.asset(**ANY)
def joined_filter(orders, customers):
    who = customers.filter("since < 2002").select("customer AS who", "country AS land")
    return (
        orders.join(customers.filter("since > 2000"), ["customer"], unmatched="filter").drop("tags")
        .join(who, F.col("customer") == F.col("who"), how="left")
    )

@tm.asset(**ANY)
def expanded_inner(orders, customers, rates):
    return (
        orders.select("id", "customer", "qty").join(customers, "customer", unmatched="filter")
        .join(rates, "country", fanout="expand", unmatched="filter")
    )

@tm.asset(**ANY)
def expanded_left(customers, rates):
    return customers.select("customer", "since", "country").join(rates, "country", how="left", fanout="expand")

@tm.asset(**ANY)
def grouped(orders):
    return orders.filter("qty IS NOT NULL").groupBy("customer", "ok").agg(
        F.sum("amount").alias("total"), n="count(*)", days="count(DISTINCT day)", most="max_by(id, qty)",
        cities="sort_array(collect_set(place.city))",
    )

@tm.asset(**ANY, evidence="digest")
def grouped_digest(orders):
    return orders.filter("qty IS NOT NULL").groupBy("customer", "ok").agg(
        F.sum("amount").alias("total"), n="count(*)", days="count(DISTINCT day)", most="max_by(id, qty)",
        cities="sort_array(collect_set(place.city))",
    )

@tm.asset(**ANY)
def grouped_whole(orders):
    return orders.groupBy().agg(n="count(*)", wide="count(DISTINCT *)", q="sum(qty)")

@tm.asset(**ANY)
def counted(orders):
    return orders.groupBy("day").count().withColumn("share", "count / 2").filter("count > 1")

@tm.asset(**ANY)
def exploded(orders):
    return orders.select("id", "tags").explode("tags", "tag")

@tm.asset(**ANY)
def exploded_outer(orders):
    return orders.select("tags", "id").explode("tags", outer=True).withColumn("n", "length(tags)")

@tm.asset(**ANY)
def united(orders, customers):
    left = orders.select("qty", "id").filter("qty > 1")
    both = left.union(orders.select("qty", "customer")).union(customers.select("since", "customer"))
    return both.unionByName(orders.select("id", "qty").filter("qty > 3"))

@tm.asset(**ANY)
def united_across(orders):
    return orders.select("id", "customer").union(orders.select("customer", "id"))

@tm.asset(**ANY)
def united_after_join(orders, customers):
    looked_up = orders.select("id", "customer").join(customers.select("customer"), "customer", unmatched="filter")
    return looked_up.union(orders.select("customer", "id"))

@tm.asset(**ANY)
def unrepeated(orders):
    first = orders.dropDuplicates(["customer", "day"]).filter("qty > 0")
    return first.select("customer", "ok").dropDuplicates()

@tm.asset(**ANY)
def windowed(orders):
    w = Window.partitionBy("customer").orderBy("id")
    return (
        orders.filter("qty > 0").withColumn("rank", F.row_number().over(w))
        .withColumn("share", "qty / sum(qty) OVER (PARTITION BY customer)")
        .filter("rank <= 2").drop("tags", "place")
    )

@tm.asset(**ANY)
def downstream(grouped, customers):
    return grouped.join(customers, "customer", unmatched="filter").groupBy("country").agg(n="sum(n)")
"""


def _orders(o: DataFrame, c: DataFrame, r: DataFrame) -> Mapping[str, DataFrame]:
    known = c.where("since > 2000")
    who = c.where("since < 2002").select(
        F.col("customer").alias("who"), F.col("country").alias("land")
    )
    firsts = o.groupBy("customer", "day").agg(F.min("id").alias("id")).select("id")
    keep_columns = ["id", "day", "amount", "qty", "ok", "place", "country", "since"]
    groups = (
        o.where("qty IS NOT NULL")
        .groupBy("customer", "ok")
        .agg(
            F.sum("amount").alias("total"),
            F.count("*").alias("n"),
            F.countDistinct("day").alias("days"),
            F.max_by("id", "qty").alias("most"),
            F.sort_array(F.collect_set("place.city")).alias("cities"),
        )
    )
    window = Window.partitionBy("customer")
    return {
        "selected": o.where("ok").select(
            "id",
            F.col("amount").cast("string"),
            F.expr("qty * 2 AS twice"),
            F.col("place.city").alias("town"),
            F.expr("upper(customer)"),
            F.col("qty").alias("n"),
            "tags",
            "place.*",
            F.expr("get(tags, 0)"),
        ),
        "narrowed": o.select("*", F.expr("qty + 1 AS more"))
        .drop("tags", "place")
        .withColumnRenamed("id", "order_id")
        .withColumnRenamed("qty", "n"),
        "widened": o.withColumn("QTY", F.expr("coalesce(qty, 0) + 1"))
        .withColumns({"month": F.trunc("day", "month"), "amount": F.expr("amount * 2")})
        .withColumn("id", F.expr("concat('x', id)"))
        .withColumn("dotted.name", F.lit(1)),
        "filtered": o.where("qty > 1 AND ok AND amount IS NOT NULL AND customer <> 'c3'"),
        "joined_error": o.select("id", "customer", "qty").join(c, "customer"),
        "joined_filter": o.join(known, ["customer"])
        .select("customer", *keep_columns)
        .join(who, F.expr("customer = who"), "left"),
        "expanded_inner": o.select("id", "customer", "qty").join(c, "customer").join(r, "country"),
        "expanded_left": c.select("customer", "since", "country").join(r, "country", "left"),
        "grouped": groups,
        "grouped_digest": groups,
        "grouped_whole": o.groupBy().agg(
            F.count("*").alias("n"),
            F.expr("count(DISTINCT *)").alias("wide"),
            F.sum("qty").alias("q"),
        ),
        "counted": o.groupBy("day")
        .count()
        .withColumn("share", F.expr("count / 2"))
        .where("count > 1"),
        "exploded": o.select("id", "tags").withColumn("tag", F.explode("tags")),
        "exploded_outer": o.select(F.explode_outer("tags").alias("tags"), "id").withColumn(
            "n", F.length("tags")
        ),
        "united": o.select("qty", "id")
        .where("qty > 1")
        .union(o.select("qty", "customer"))
        .union(c.select("since", "customer"))
        .unionByName(o.select("id", "qty").where("qty > 3")),
        "united_across": o.select("id", "customer").union(o.select("customer", "id")),
        "united_after_join": o.select("id", "customer")
        .join(c.select("customer"), "customer")
        .union(o.select("customer", "id")),
        "unrepeated": o.join(firsts, "id", "left_semi")
        .where("qty > 0")
        .select("customer", "ok")
        .distinct(),
        "windowed": o.where("qty > 0")
        .withColumn("rank", F.row_number().over(window.orderBy("id")))
        .withColumn("share", F.expr("qty / sum(qty) OVER (PARTITION BY customer)"))
        .where("rank <= 2")
        .drop("tags", "place"),
        "downstream": groups.join(c, "customer").groupBy("country").agg(F.sum("n").alias("n")),
    }


NAMES = [line[4 : line.index("(")] for line in PIPELINE.splitlines() if line.startswith("def ")]


def _order(i: int) -> dict[str, object]:
    return {
        "id": f"o{i:03d}",
        "customer": None if i % 13 == 5 else f"c{i % 7}",
        "day": f"2024-01-{1 + i % 5:02d}",
        "amount": None if i % 11 == 3 else round(i * 1.37, 2),
        "qty": None if i % 9 == 4 else i % 6 - 1,
        "ok": [True, False, None][i % 3],
        "tags": [None, [], ["a"], ["b", "a", None], ["c", "c"]][i % 5],
        "place": None if i % 8 == 7 else {"city": f"City {i % 4}", "zip": 1000 + i},
    }


@pytest.fixture(scope="module")
def home(workshop: Callable[..., Workshop], spark: SparkSession) -> Workshop:
    made = workshop(interpreted=not FULL).pipeline(PIPELINE)
    made.lines("orders/1.json", (json.dumps(_order(i)) for i in range(40)))
    made.lines("orders/2.json", (json.dumps(_order(i)) for i in range(40, 60)))
    people = [f"c{i},{'ABC'[i % 3] if i < 5 else ''},{1998 + i}" for i in range(6)]
    made.lines("customers.csv", ["customer,country,since", *people])
    rates = [("A", 1.0, "x"), ("A", 2.5, "y"), ("B", 1.5, "x"), ("A", 1.0, "x"), (None, 9.0, "z")]
    return made.parquet("rates", spark.createDataFrame(rates, RATES))


@pytest.fixture(scope="module")
def ran(home: Workshop) -> Ran:
    return home.run(*NAMES)


@pytest.fixture(scope="module")
def plain(home: Workshop, spark: SparkSession) -> Mapping[str, DataFrame]:
    orders = spark.read.schema(ORDERS).json(home.data + "/orders").cache()
    customers = (
        spark.read.schema(CUSTOMERS).option("header", True).csv(home.data + "/customers.csv")
    )
    return _orders(orders, customers, spark.read.parquet(home.data + "/rates"))


def test_every_verb_is_tried(plain: Mapping[str, DataFrame]) -> None:
    assert sorted(NAMES) == sorted(plain)


@pytest.mark.parametrize("name", NAMES)
def test_the_output_is_what_pyspark_gives(
    name: str, ran: Ran, plain: Mapping[str, DataFrame]
) -> None:
    assert ran.asset(name).error is None
    found = ran.read(name)
    assert shape(found) == shape(plain[name])
    assert bag(found) == bag(plain[name])


@pytest.mark.parametrize("name", NAMES)
def test_the_ledger_balances(name: str, ran: Ran) -> None:
    files = ran[name]
    assert files.balanced
    assert files.door["total_records"] == sum(files.fates.values())
    assert all(sub["unaccounted"] == 0 for sub in files.subs)
