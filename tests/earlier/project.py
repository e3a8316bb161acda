"""The project whose runs are packed: every evidence, every format of input, and what to ask."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PIPELINE = """\
import tallyman as tm

ANY = dict(thresholds=dict(absolute=0, percentage=1))
tm.source("orders", "data/orders", "json", key="id",
    schema="id string, kind string, n int, tags array<string>")
tm.source("kinds", "data/kinds.csv", "csv", key="kind", schema="kind string, label string")
tm.source("scans", "data/scans.parquet", "parquet", key="id")
tm.source("notes", "data/notes.jsonl", "json", schema="text string, n int")


@tm.asset(key="id", **ANY)
def clean(orders, kinds):
    return (orders.expect("not_negative", "n >= 0", code="NEGATIVE")
        .filter("n <> 7", reason="unlucky", name="luck")
        .join(kinds, "kind", unmatched="error", name="known"))


@tm.asset(key="label")
def totals(clean):
    return clean.groupBy("label").agg(total="sum(n)", orders="count(*)", name="by_label")


@tm.asset(key="label", evidence="digest")
def digests(clean):
    return clean.groupBy("label").agg(total="sum(n)", orders="count(*)", name="by_label")


@tm.asset(key="tag")
def tags(clean):
    return (clean.explode("tags", "tag", name="each").filter("tag <> 'c'", name="no_c")
        .groupBy("tag").agg(n="count(*)", name="by_tag"))


@tm.asset(key="size", **ANY)
def sizes(scans):
    return (scans.filter("size > 0", name="sized")
        .groupBy("place", "size").agg(n="count(*)", name="by_both")
        .expect("near", "place <> 'far'").groupBy("size").agg(n="sum(n)", name="by_size"))


@tm.asset(key="size", evidence="digest", **ANY)
def brief(scans):
    return (scans.filter("size > 0", name="sized").expect("near", "place <> 'far'")
        .groupBy("size").agg(n="count(*)", name="by_size"))


@tm.asset(unique=False, evidence="digest")
def everything(notes):
    return notes.groupBy().agg(n="count(*)", name="all")


@tm.asset(unique=False)
def nothing(kinds):
    return kinds.filter("label = 'none'", name="none").groupBy().agg(n="count(*)", name="all")


@tm.asset
def noted(notes):
    return notes.filter("n > 1", reason="small").select("text")


@tm.asset(key="id", unique=False, trace="changes")
def states(scans):
    return (scans.update({"size": "size + 1"}, where="place = 'near'", name="grow", seq=10)
        .delete(where="size = 3", name="threes", seq=20)
        .aggregate(["place"], size="sum(size)", name="sums", seq=30))
"""
RUNS = (("run", "--run-id", "first"), ("run", "totals", "digests", "--force", "--run-id", "second"))

QUESTIONS = (
    *(("show", run) for run in ("first", "second")),
    *(("report", run) for run in ("first", "second")),
    *(("verify", run) for run in ("first", "second")),
    *(("verify", run, "--exact") for run in ("first", "second")),
    ("verify", "chain"),
    *(("reproduce", run) for run in ("first", "second")),
    ("why", "clean", "id=o12"),
    *(("why", name, "label=R") for name in ("totals", "digests")),
    ("why", "totals", "label=G", "--keys"),
    ("why", "tags", "tag=a"),
    *(("why", name, "size=2") for name in ("sizes", "brief")),
    ("why", "noted", "text=note 2"),
    ("why", "everything", "n=20"),
    ("why", "nothing", "n=0"),
    *(("where", "orders", f"id=o{n:02d}") for n in (3, 5, 7, 12)),
    *(("where", "scans", f"id=s{n:02d}") for n in (0, 4, 5)),
    ("where", "kinds", "kind=blue"),
    ("where", "notes", "@notes.jsonl#2"),
    ("rejections", "show", "first", "--key", "o05"),
    ("trace", "first"),
    *(("trace", "first", "--key", f"id=s{n:02d}") for n in (3, 12)),
    ("read", "totals"),
)
"""What is asked of the packed runs, each with `--json`."""


def write(home: Path) -> None:
    (home / "pipelines").mkdir()
    (home / "pipelines" / "p.py").write_text(PIPELINE)
    orders = home / "data" / "orders"
    orders.mkdir(parents=True)
    for number in (0, 1):
        rows = [_order(number * 20 + n) for n in range(20)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (orders / f"part-{number}.jsonl").write_text(text + "broken\n")
    (home / "data" / "kinds.csv").write_text("kind,label\nred,R\ngreen,G\nblue,B\n")
    notes = [{"text": f"note {n % 5}", "n": n % 4} for n in range(20)]
    (home / "data" / "notes.jsonl").write_text("".join(json.dumps(n) + "\n" for n in notes))
    scans = [
        {"id": f"s{n:02d}", "place": ("near", "far", "home")[n % 3], "size": n % 5}
        for n in range(30)
    ]
    pq.write_table(pa.Table.from_pylist(scans), home / "data" / "scans.parquet")


def _order(n: int) -> dict[str, object]:
    kind = "zz" if n % 25 == 3 else ("red", "green", "blue")[n % 3]
    tags = ["a", "b", "c"][: n % 4]
    return {"id": f"o{n:02d}", "kind": kind, "n": -1 if n % 20 == 5 else n % 11, "tags": tags}
