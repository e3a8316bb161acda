"""A small project with every way in which rows pass from one step to the next.

Each plan below is the body of many assets: one asset for each planted bug, and one without any.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from tests.planted.plants import Plant

PLANS = """
ANY = dict(thresholds=dict(absolute=0, percentage=1))
tm.source("orders", "data/orders.parquet", "parquet", key="id")
tm.source("regions", "data/regions.csv", "csv", key="region", schema="code string, region string")
tm.source("more", "data/more.parquet", "parquet", key="id")

def checked(orders):
    return (orders.filter("status <> 'void'", name="void").filter("status <> 'old'", name="old")
        .expect("positive", "amount >= 0").expect("bounded", "amount > -20"))

def rows(orders, regions=None, more=None, asset=""):
    return checked(orders)

def added_up(orders, regions=None, more=None, asset=""):
    return orders.groupBy("grp").agg(total="sum(amount)", name="by_grp")

def both(orders, regions=None, more=None, asset=""):
    return checked(orders).select("id", "grp").union(more.select("id", "grp"))

def groups(orders, regions=None, more=None, asset=""):
    return checked(orders).groupBy("grp").agg(total="sum(amount)", name="by_grp")

def judged(orders, regions=None, more=None, asset=""):
    return (groups(orders).expect("known", "grp <> 'b'")
        .filter("grp <> 'c'", name="no_c"))

def regrouped(orders, regions=None, more=None, asset=""):
    return (checked(orders).groupBy("grp", "status").agg(total="sum(amount)", name="by_both")
        .groupBy("status").agg(n="count(*)", name="by_status"))

def unfolded(orders, regions=None, more=None, asset=""):
    return (checked(orders)
        .groupBy("grp").agg(seen="array(1, 2)", total="sum(amount)", name="by_grp")
        .filter("grp <> 'c'", name="no_c").explode("seen", "item", name="seen"))

def children(orders, regions=None, more=None, asset=""):
    return (checked(orders).explode("items", "item", name="items")
        .filter("item % 7 <> 0", name="sevens").expect("small", "item < 35"))

def matches(orders, regions=None, more=None, asset=""):
    return checked(orders).join(regions, "grp = code", fanout="expand", unmatched="filter",
        name="regions").filter("region <> 'r9'", name="far")

divided, parted = rows, groups

def ranked(orders, regions=None, more=None, asset=""):
    w = Window.partitionBy("grp").orderBy("id")
    return (checked(orders).withColumn("rank", F.row_number().over(w))
        .filter("rank < 8", name="late").dropDuplicates(["grp", "rank"], name="once"))

def worked(orders, regions=None, more=None, asset=""):
    return (orders.update({"amount": "amount * 2"}, where="grp = 'a'", name="twice", seq=10)
        .delete("status = 'void'", name="void", seq=20)
        .aggregate(["grp"], amount="sum(amount)", name="sums", seq=30)
        .append(more, name="more", seq=40)
        .update({"status": "'seen'"}, where="grp = 'b'", name="seen", seq=50)
        .output(f"exports/{asset}.csv", columns=["id", "grp", "amount"], name="csv", seq=60)
        .output(f"exports/{asset}_one.csv", columns=["status"], name="one", seq=65)
        .output(f"exports/{asset}.parquet", include_deleted=True, name="all", seq=70))

def touched(orders, regions=None, more=None, asset=""):
    return (orders.update({"amount": "amount * 2"}, where="grp = 'a'", name="twice", seq=10)
        .delete("status = 'void'", name="void", seq=20)
        .update({"status": "'seen'"}, where="grp = 'b'", name="seen", seq=30))
"""
ASSET = """
@tm.asset(name="{name}", evidence="{evidence}", trace={trace!r}, split={split}, **ANY)
def {name}({inputs}):
    return {plan}({given}, asset="{name}")
"""
SPLITS = {
    "divided": """{{"{name}_low": "amount < 20", "{name}_rest": tm.otherwise}}""",
    "parted": """{{"{name}_ab": "grp < 'c'", "{name}_cd": "grp >= 'c'"}}""",
}
READS = {
    "both": ["orders", "more"],
    "matches": ["orders", "regions"],
    "worked": ["orders", "more"],
}


def pipeline(plants: Iterable[Plant]) -> str:
    """The text of a pipeline with one asset for each plant."""
    return PLANS + "".join(map(_asset, plants))


def _asset(plant: Plant) -> str:
    inputs = READS.get(plant.plan, ["orders"])
    return ASSET.format(
        name=plant.asset,
        evidence=plant.evidence,
        trace="changes" if plant.traced else None,
        split=SPLITS.get(plant.plan, "None").format(name=plant.asset),
        plan=plant.plan,
        inputs=", ".join(inputs),
        given=", ".join(f"{name}={name}" for name in inputs),
    )


def order(n: int) -> dict[str, object]:
    status = {3: "void", 5: "old"}.get(n % 8, "ok")
    amount = -n if n % 13 == 6 else n
    items = [] if n % 10 == 9 else [n, n + 1]
    return {
        "id": f"o-{n:02d}",
        "grp": "abcd"[n % 4],
        "amount": amount,
        "status": status,
        "items": items,
    }


SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("grp", pa.string()),
        ("amount", pa.int32()),
        ("status", pa.string()),
        ("items", pa.list_(pa.int32())),
    ]
)
ORDERS = [order(n) for n in range(48)]
MORE = [{**order(n), "id": f"m-{n:02d}", "status": "ok"} for n in range(6)]
REGIONS = ["code,region", "a,r1", "a,r2", "b,r3", "b,r9", "c,r4"]


def write(home: Path) -> None:
    """Parquet: on a mismatch JSON lines would be read a second time, line by line."""
    (home / "data").mkdir()
    for name, rows in (("orders", ORDERS), ("more", MORE)):
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), home / "data" / f"{name}.parquet")
    (home / "data" / "regions.csv").write_text("\n".join(REGIONS) + "\n")
