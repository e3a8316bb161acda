"""The project that the sequences are run in: small, so that a run takes a second.

`good` is read by all kinds of readers: whole, by partition, joined. `parts` and `by_kind` have
rejections of their own, `plog` appends.
"""

from __future__ import annotations

DAYS = ("mon", "tue", "wed")
PIPELINE = """\
import tallyman as tm

days = tm.partitions("day", ["mon", "tue", "wed"])
SOME = "absolute=0,percentage=1"
RECORD = "id string, day string, kind string, n int"
raw = tm.source("raw", path="data/raw/{partition}/*.jsonl", format="json", key="id", schema=RECORD)
items = tm.source("items", path="data/items/*.jsonl", format="json", key="id", schema=RECORD)
kinds = tm.table("kinds", schema="kind string not null, label string", key="kind")
grades = tm.table(
    "grades",
    schema="kind string not null, grade int",
    key="kind",
    references={"kind": "kinds.kind"},
)


@tm.asset(key="id", partitioned_by=days, thresholds=SOME)
def good(raw):
    return raw.expect("positive", "n > 0").filter("n < 50", reason="large")


@tm.asset(key="day")
def per_day(good):
    return good.groupBy("day").agg(rows="count(*)", total="sum(n)")


@tm.asset(key="day", partitioned_by=days)
def day_sums(good):
    return good.groupBy("day").agg(rows="count(*)", total="sum(n)")


@tm.asset(key="id", thresholds={"on_empty": "warn"})
def labelled(good, kinds):
    return good.join(kinds, "kind", how="left").select("id", "n", "label")


@tm.asset(key="id", partitioned_by=days, thresholds=SOME, update_strategy="append", unique_key="id")
def plog(raw):
    return raw.expect("positive", "n > 0")


@tm.asset(key="day")
def plog_sums(plog):
    return plog.groupBy("day").agg(rows="count(*)", total="sum(n)")


@tm.asset(
    key="id",
    thresholds=SOME,
    split={"small": "n < 10", "large": "n < 50"},
    publish_rejections="parts_rejected",
)
def parts(items):
    return items.expect("positive", "n > 0")


@tm.asset(key="kind")
def small_sums(small):
    return small.groupBy("kind").agg(rows="count(*)", total="sum(n)")


@tm.asset(key="kind", thresholds=SOME)
def by_kind(items):
    return items.expect("positive", "n > 0").groupBy("kind").agg(rows="count(*)", total="sum(n)")
"""
BOARD = """\
import tallyman as tm

tm.dataset("good")


@tm.asset(key="kind")
def board_sums(good):
    return good.groupBy("kind").agg(rows="count(*)", total="sum(n)")
"""
LIMIT = '"n < 50", reason'
"""The rule of `good` that sequences edit: it leaves larger numbers out."""


def pipeline(limit: int) -> str:
    assert LIMIT in PIPELINE
    return PIPELINE.replace(LIMIT, LIMIT.replace("50", str(limit)))
