"""The depot project: ten assets with every verb, over the files of `data`."""

from __future__ import annotations

from pathlib import Path

PIPELINE = """\
import tallyman as tm

tm.source(
    "parcels", "data/parcels", "json", key="parcel_id",
    schema="parcel_id string, tag string, depot string, service string, "
    "weight decimal(10,3) not null, day date, declared int, codes array<string>",
)
tm.source(
    "scans", "data/scans.csv", "csv", key=["parcel_id", "seq"],
    schema="parcel_id string, seq int, tag string, depot string, kind string, minute int not null",
)
tm.source(
    "returns", "data/returns", "parquet", key=["depot", "number"],
    schema="depot string, number int, tag string, weight decimal(10,3) not null, day date",
)
tm.source(
    "movements", "data/movements.csv", "csv", key=["ref", "line"],
    schema="ref string, line int, tag string, account string, region string, quantity int, "
    "value decimal(12,2), note string",
)
tm.source(
    "adjustments", "data/adjustments.jsonl", "json", key="id",
    schema="id string, tag string, region string, value decimal(12,2)",
)
tm.source(
    "notices", "data/notices", "json", key="notice_id",
    schema="notice_id string, tag string, subject string, level int",
)
tm.source(
    "rounds", "data/rounds/{partition}", "json", key="round_id",
    schema="round_id string, tag string, day date, depot string, stops array<int>",
)
tm.source("depots", "data/depots.csv", "csv", key="code",
          schema="code string, city string, zone string")
tm.source("accounts", "data/accounts.csv", "csv", key="code",
          schema="code string, factor decimal(6,2)")
tm.source("tariffs", "data/tariffs.parquet", "parquet", key=["zone", "offer"])


@tm.asset(key="parcel_id", unique=False)
def clean_parcels(parcels, depots):
    return (
        parcels.expect("weight_positive", "weight > 0", code="NEGATIVE_WEIGHT")
        .expect("declared_not_negative", "declared >= 0 OR declared IS NULL")
        .filter("service <> 'TEST'", reason="test parcels", name="no_tests")
        .join(depots, "depot = code", unmatched="error", name="known_depot")
        .withColumn("grams", "CAST(weight * 1000 AS INT)")
        .withColumnRenamed("day", "sent_on")
        .drop("code")
    )


@tm.asset(key=["zone", "sent_on"])
def zone_days(clean_parcels):
    return (
        clean_parcels.groupBy("zone", "sent_on")
        .agg(parcels="count(*)", grams="sum(grams)", heaviest="max(weight)")
        .expect("even_load", "grams % 7 <> 3")
        .filter("grams % 5 <> 1", reason="left for tomorrow", name="today")
        .withColumn("mean", "CAST(grams / parcels AS INT)")
    )


@tm.asset
def offers(clean_parcels, tariffs):
    return (
        clean_parcels.select("parcel_id", "tag", "zone", "grams")
        .join(tariffs, "zone", unmatched="filter", fanout="expand", name="each_offer")
        .expect("affordable", "rate < 70", code="TOO_DEAR")
        .filter("offer <> 'gold' OR grams > 1000", reason="gold is for large parcels", name="gold")
        .withColumn("price", "grams * rate")
    )


@tm.asset
def labels(parcels):
    return (
        parcels.expect("declared_known", "declared IS NOT NULL")
        .explode("codes", "label", name="each_code")
        .expect("label_allowed", "label <> 'BAD'")
        .filter("label <> 'XL'", name="no_xl")
        .select("parcel_id", "tag", "label", "declared")
    )


@tm.asset(key="tag")
def scan_trail(scans, depots):
    return (
        scans.expect("kind_known", "kind IN ('IN', 'OUT', 'LOAD', 'SORT')")
        .join(depots, "depot = code", how="left", unmatched="keep", name="maybe_depot")
        .filter("minute < 1400", reason="night", name="by_day")
        .withColumn("nth", "row_number() over (partition by parcel_id order by minute, tag)")
        .withColumn("before", "lag(minute) over (partition by parcel_id order by minute, tag)")
        .dropDuplicates(["parcel_id", "city"], name="once_a_city")
        .drop("code", "zone")
    )


@tm.asset(key=["depot", "kind"])
def depot_scans(scans):
    return (
        scans.filter("kind <> 'SORT'", name="no_sorting")
        .groupBy("depot", "kind")
        .agg(scans="count(*)", earliest="min(minute)")
    )


@tm.asset(key="tag")
def weights(clean_parcels, returns):
    sent = clean_parcels.select("tag", "weight", "sent_on").withColumnRenamed("sent_on", "day")
    return sent.unionByName(returns.select("tag", "day", "weight")).filter(
        "weight < 4", reason="too heavy", name="light"
    )


@tm.asset
def close(movements, accounts, adjustments):
    return (
        movements.expect("quantity_small", "quantity < 1000", name="small")
        .update({"value": "quantity * a.factor"}, join={"a": (accounts, "account = a.code")},
                where="a.code IS NOT NULL")
        .update({"note": "'LARGE'"}, where="value > 150")
        .delete("quantity < 0", name="no_negatives")
        .aggregate(by=["region"], name="by_region", value="sum(value)", lines="count(tag)")
        .append(adjustments.drop("id"), where="value <> 0", name="adjusted")
        .update({"note": "'ADJUSTED'"}, where="tag LIKE 'A%'")
        .output("exports/close.csv")
        .output("exports/all.parquet", include_deleted=True)
    )


@tm.asset(key="tag", update_strategy="append", unique_key="subject", unique=False)
def notice_log(notices):
    return (
        notices.filter("level < 7", reason="noise", name="no_noise")
        .withColumn("logged_on", "current_date()")
        .select("tag", "notice_id", "subject", "level", "logged_on")
    )


@tm.asset(key=["day", "depot"], partitioned_by=tm.daily("day", start="2026-03-01"))
def depot_rounds(rounds):
    return (
        rounds.explode("stops", "stop", outer=True, name="each_stop")
        .groupBy("day", "depot")
        .agg(stops="count(stop)", visits="count(*)", longest="max(stop)")
    )
"""


def write(home: Path) -> None:
    (home / "pipelines").mkdir()
    (home / "pipelines" / "depot.py").write_text(PIPELINE)
