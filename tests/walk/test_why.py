"""From a row back through versions, runs and steps to records, with file and line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyarrow import parquet as pq

from tests.walk.conftest import OrdersHome


def told(hop: Any) -> tuple[Any, ...]:
    steps = [(step["step"], step["did"], step["count"]) for step in hop["steps"]]
    return hop["dataset"], hop["version"], hop["run"], steps, hop["records"]


def places(origin: Any) -> list[tuple[str, str, int]]:
    return [(r["key"], r["file"], r["line"]) for r in origin["records"]]


def test_a_group_leads_through_explode_and_join_to_lines_of_files(shop: OrdersHome) -> None:
    found = shop.why("per_item", "item=ink")
    [group] = found["hops"]
    # ink is twice in o3: three children of two records
    steps = [("10_groupBy", "combined", 3)]
    assert told(group) == ("per_item", 3, shop.runs[2], steps, 3)
    assert group["shown"] == [{"item": "ink", "n": 3, "twice": 6}]
    [lines] = group["inputs"]
    assert (lines["kind"], lines["count"]) == ("asset", 3)
    run = shop.runs[1]
    [exploded] = lines["hops"]
    assert told(exploded) == ("lines", 2, run, [("10_explode", "multiplied", 2)], 2)
    [clean] = exploded["inputs"]
    [passed] = clean["hops"]
    assert told(passed) == ("clean", 2, run, [("40_withColumn", "passed", 2)], 2)
    [orders] = passed["inputs"]
    file = "data/orders/a.jsonl"
    assert places(orders) == [("o1", file, 1), ("o3", file, 3)]
    assert orders["records"][0]["values"]["amount"] == "10.5"
    assert orders["files"] == {file: 2}
    [joined] = passed["joins"]
    assert (joined["step"], joined["on"]) == ("known_customer", "customer = code")
    matched = [(r["key"], r["line"], r["values"]["city"]) for r in joined["origin"]["records"]]
    assert matched == [("ann", 2, "Oslo"), ("cid", 4, "Oslo")]


def test_an_old_version_shows_what_its_run_read(shop: OrdersHome) -> None:
    found = shop.why("per_item", "item=pen", "--version", "1", "--keys")
    versions, hops = [], found["hops"]
    while hops:
        [hop] = hops
        versions.append((hop["dataset"], hop["version"], hop["run"]))
        [origin] = hop["inputs"]
        hops = origin.get("hops")
    run = shop.runs[0]
    assert versions == [("per_item", 1, run), ("lines", 1, run), ("clean", 1, run)]
    # The folder of the source has a file more since: its records are not shown as if they were.
    assert origin["keys"] == ["o1", "o2"]
    assert "changed since run" in origin["not_shown"]
    assert "records" not in origin


def test_a_run_that_kept_digests_is_replayed(shop: OrdersHome) -> None:
    [hop] = shop.why("by_city", "city=Oslo")["hops"]
    assert (hop["records"], hop["replayed"]) == (3, True)
    assert hop["shown"] == [{"city": "Oslo", "total": "33.00", "fee": "1.50"}]
    [clean] = hop["inputs"][0]["hops"]
    assert [r["id"] for r in clean["shown"]] == ["o1", "o3", "o4"]
    [fee] = hop["joins"]
    assert (fee["origin"]["kind"], fee["origin"]["version"]) == ("table", 1)
    assert fee["origin"]["committed_by"] == "ann"
    assert [r["values"] for r in fee["origin"]["records"]] == [{"city": "Oslo", "fee": "1.50"}]


def test_a_row_of_a_partition_leads_to_the_records_of_that_day(shop: OrdersHome) -> None:
    [hop] = shop.why("by_day", "day=2026-01-02", "--partition", "2026-01-02")["hops"]
    assert (hop["partition"], hop["records"]) == ("d:2026-01-02", 6)
    # The second file begins with a blank line, which is a line of the file.
    orders = places(hop["inputs"][0])
    assert orders[0] == ("o3", "data/orders/a.jsonl", 3)
    assert orders[1:] == [(f"o{n}", "data/orders/b.jsonl", n - 2) for n in (4, 5, 6, 7, 8)]
    assert hop["inputs"][0]["files"] == {"data/orders/a.jsonl": 1, "data/orders/b.jsonl": 5}
    other = shop.tallyman("why", "by_day", "day=2026-01-02", "-p", "2026-01-01")
    assert (other.code, other.json["error"]["code"]) == (2, "not_found")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("per_itm", "item=pen"), "not_found", "Did you mean 'per_item'?"),
        (("per_item", "itm=pen"), "usage_error", "Did you mean 'item'?"),
        (("per_item", "n=many"), "usage_error", "the column is bigint"),
        (("per_item", "item=pen", "--version", "9"), "not_found", "Did you mean 'v3'?"),
        (("per_item", "item=cup"), "not_found", "row in per_item v3"),
        (("lines", "customer=ann", "--limit", "1"), "usage_error", "2 rows of lines v2"),
    ],
)
def test_what_cannot_be_answered_says_why(
    shop: OrdersHome, words: tuple[str, ...], code: str, message: str
) -> None:
    reply = shop.tallyman("why", *words)
    assert (reply.code, reply.json["error"]["code"]) == (2, code), str(reply)
    assert message in reply.json["error"]["message"]


def test_rows_of_a_table_name_their_commit(shop: OrdersHome) -> None:
    found = shop.why("fees", "city=Oslo")
    assert (found["version"], found["rows"], found["committed_by"]) == (1, 1, "ann")
    assert "hops" not in found


@contextmanager
def instead(path: Path, content: bytes) -> Iterator[None]:
    """The shop is shared: it is as it was afterwards."""
    kept = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(kept)


def test_a_changed_source_is_never_shown_as_what_was_read(shop: OrdersHome) -> None:
    orders = shop.path / "data" / "orders" / "a.jsonl"
    with instead(orders, orders.read_bytes().replace(b"10.5", b"99.5")):
        [hop] = shop.why("clean", "id=o1")["hops"]
    [origin] = hop["inputs"]
    assert "changed since run" in origin["not_shown"]
    assert "records" not in origin
    [joined] = hop["joins"]  # nothing tells any more which row of it they met
    assert "records" not in joined["origin"]


def test_evidence_with_another_digest_shows_nothing(shop: OrdersHome) -> None:
    [hop] = shop.why("by_city", "city=Rome")["hops"]
    files = (shop.path / hop["folder"] / "adjoint" / "reverse_joins").rglob("*.parquet")
    file = next(file for file in files if file.is_file() and pq.read_metadata(file).num_rows)
    rows = pq.read_table(file, partitioning=None)
    place = rows.column_names.index("key_digest_low")
    other = rows.set_column(
        place,
        "key_digest_low",
        pc.subtract(rows["key_digest_low"], 1).cast(rows.schema[place].type),
    )
    aside = shop.path / "aside.parquet"
    pq.write_table(other, aside)
    with instead(file, aside.read_bytes()):
        reply = shop.tallyman("why", "by_city", "city=Rome")
    assert (reply.code, reply.json["error"]["code"]) == (1, "run_damaged"), str(reply)
    assert str(file.relative_to(shop.path)) in reply.json["error"]["message"]


def test_a_run_whose_folder_is_gone_says_so(shop: OrdersHome) -> None:
    [hop] = shop.why("per_item", "item=ink")["hops"]
    folder = shop.path / hop["folder"]
    aside = folder.with_name("aside")
    folder.rename(aside)
    try:
        reply = shop.tallyman("why", "per_item", "item=ink")
    finally:
        aside.rename(folder)
    assert (reply.code, reply.json["error"]["code"]) == (1, "evidence_gone"), str(reply)
    assert hop["run"] in reply.json["error"]["message"]
