"""A pipeline as a user would have it in a module of their own."""

import tallyman as tm

orders = tm.source(
    "orders",
    path="data/orders",
    key="order_id",
    schema="order_id string, day date, country string, amount decimal(10,2)",
)
countries = tm.source(
    "countries",
    path="data/countries.csv",
    format="csv",
    key="code",
    schema="code string, name string, note string",
)
rates = tm.source(
    "rates", path="data/rates", format="parquet", schema="country string not null, rate double"
)
notes = tm.table("notes", schema="country string not null, text string", key="country")


@tm.asset(key="order_id")
def clean(orders: tm.Frame) -> tm.Frame:
    return orders.expect("positive_amount", "amount > 0").filter(
        "day >= '2026-01-01'", reason="last year"
    )


@tm.asset(key="country")
def by_country(clean: tm.Frame, countries: tm.Frame) -> tm.Frame:
    return (
        clean.join(countries, "country = code")
        .groupBy("country", "name")
        .agg(total="sum(amount)", orders="count(*)")
    )


@tm.asset(key="day", evidence="digest", thresholds="strict")
def by_day(clean: tm.Frame) -> tm.Frame:
    return clean.groupBy("day").agg(total="sum(amount)")


@tm.asset(key="order_id", partitioned_by=tm.daily("day", start="2026-01-01"))
def of_day(orders: tm.Frame) -> tm.Frame:
    return orders.withColumn("age", "datediff(current_date(), day)").select(
        "order_id", "day", "age"
    )


@tm.asset(key="country", approval=tm.approval("a high rate", when="max(rate) > 1"))
def rated(rates: tm.Frame, notes: tm.Frame) -> tm.Frame:
    return rates.join(notes, "country", "left")


@tm.asset
def close(orders: tm.Frame) -> tm.Frame:
    return (
        orders.update({"amount": "amount * 2"}, where="country = 'NL'")
        .delete("amount < 0")
        .aggregate(by=["country"], amount="sum(amount)")
    )
