"""Columns may have any name, also those that our own queries use; texts, NULLs and bytes can be
asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallyman.project import Project
from tests.world.home import Home
from tests.world.homes import Homes

# Every alias of a column or a table in our queries (DuckDB, Spark), and what DuckDB adds itself.
NAMES = (
    "k", "p", "s", "n", "r", "h", "w", "m", "g", "e", "o", "v", "v0", "v1", "f0", "s0", "line",
    "file", "name", "one", "made", "found_at", "file_row_number", "filename", "rowid", "sign",
    "copies", "kind", "place", "before", "after", "changed", "row_id", "source_key",
    "source_place", "source_step", "group_key", "child_key", "parent_key", "filter_predicate",
    "context", "key", "step", "value", "count", "rejections", "held", "picked", "differing",
    "came", "met", "missing", "extra", "duplicate", "path", "_tmx",
)  # fmt: skip
SCHEMA = ", ".join(f"{name} int" for name in NAMES if name != "k")
PIPELINE = f"""\
import tallyman as tm

SCHEMA = "k int, {SCHEMA}"
tm.source("lines", "data/lines.jsonl", "json", key="k", schema=SCHEMA)
tm.source("cells", "data/cells.csv", "csv", key=["k", "v0"], schema=SCHEMA)
tm.source("stored", "data/stored", "parquet", key="k")
tm.source("looked", "data/looked", "parquet", key="k")


@tm.asset(key="k")
def of_lines(lines):
    return lines.filter("v0 <> 30", reason="thirty")


@tm.asset(key=["k", "v0"])
def of_cells(cells):
    return cells.expect("small", "s0 < 100")


@tm.asset(key="k")
def of_stored(stored, looked):
    few = looked.select("v0", "v1", "file_row_number").withColumnRenamed("v1", "w1")
    few = few.withColumnRenamed("file_row_number", "row2")
    return stored.join(few, "v0", how="left", unmatched="keep", name="looked_up")


@tm.asset(key=["k", "v0"])
def grouped(of_lines):
    return of_lines.groupBy("k", "v0").agg(s="sum(s)", n="count(*)", p="max(p)")


@tm.asset(key=["v0", "k"], evidence="digest")
def by_digest(of_lines):
    return of_lines.groupBy("v0", "k").agg(p="sum(p)")


@tm.asset
def children(of_lines):
    more = of_lines.withColumn("line", "array(k, v0)").explode("line", "w")
    return more.groupBy("w", "k").agg(v0="count(*)", v1="max(v1)").filter("w > 0", reason="none")


@tm.asset(key="k", trace="changes")
def changed_rows(of_lines):
    return of_lines.update({{"after": "after + 1", "key": "0"}}, where="before > 0")
"""


def rows(*keys: int) -> list[dict[str, int]]:
    """Every value differs, so that a column taken for another is seen."""
    return [
        {name: key * 10 if name == "v0" else key + place * 1000 for place, name in enumerate(NAMES)}
        | {"k": key, "s0": key, "before": key}
        for key in keys
    ]


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    home = homes.make(Home, "names").pipeline(PIPELINE)
    home.data("lines.jsonl", *rows(1, 2, 3))
    cells = [",".join(NAMES), *(",".join(map(str, row.values())) for row in rows(1, 2))]
    (home.path / "data" / "cells.csv").write_text("\n".join(cells) + "\n")
    for folder in ("stored", "looked"):
        place = home.path / "data" / folder
        place.mkdir()
        for number, keys in enumerate(((1, 2), (3, 4))):
            pq.write_table(pa.Table.from_pylist(rows(*keys)), place / f"{number}.parquet")
    found = home.ok("run")
    assert {one["status"] for one in found["assets"]} == {"success"}
    return home


def first_record(found: Any) -> dict[str, Any]:
    hop = found["hops"][0]
    while "hops" in hop["inputs"][0]:
        hop = hop["inputs"][0]["hops"][0]
    [record] = hop["inputs"][0]["records"]
    return dict(record)


@pytest.mark.parametrize(
    ("dataset", "file", "line"),
    [
        ("of_lines", "data/lines.jsonl", 2),
        ("of_cells", "data/cells.csv", 3),
        ("of_stored", "data/stored/0.parquet", 2),
        ("grouped", "data/lines.jsonl", 2),
        ("by_digest", "data/lines.jsonl", 2),
        ("changed_rows", "data/lines.jsonl", 2),
    ],
)
def test_a_row_leads_to_its_record(home: Home, dataset: str, file: str, line: int) -> None:
    found = home.ok("why", dataset, "k=2")
    record = first_record(found)
    assert (record["file"], record["line"]) == (file, line)
    assert {n: int(v) for n, v in record["values"].items()} == rows(2)[0]
    [shown] = found["hops"][0]["shown"]
    assert shown["k"] == 2
    if dataset in ("of_lines", "of_cells"):
        assert shown == rows(2)[0]


def test_a_row_leads_to_what_it_was_joined_with(home: Home) -> None:
    [joined] = home.ok("why", "of_stored", "k=3")["hops"][0]["joins"]
    [record] = joined["origin"]["records"]
    assert record["values"]["k"] == 3
    assert (record["file"], record["line"]) == ("data/looked/1.parquet", 1)


def test_children_lead_to_their_records(home: Home) -> None:
    for k in (1, 2):
        record = first_record(home.ok("why", "children", f"w={k}", f"k={k}"))
        assert record["values"]["k"] == k


@pytest.mark.parametrize(
    ("source", "asset"),
    [("lines", "of_lines"), ("cells", "of_cells"), ("stored", "of_stored")],
)
def test_a_record_leads_to_its_rows_with_all_their_columns(
    home: Home, source: str, asset: str
) -> None:
    found = home.ok("where", source, "k=2")
    became = next(one for one in found["became"] if one["asset"] == asset)
    [shown] = became["shown"]
    assert {name: shown[name] for name in NAMES} == rows(2)[0]
    if source == "lines":
        by_asset = {one["asset"]: one for one in became["then"]}
        assert by_asset["grouped"]["shown"][0]["k"] == 2
        assert by_asset["by_digest"]["shown"][0]["k"] == 2
        assert {row["k"] for row in by_asset["children"]["shown"]} == {2}


def test_where_names_the_filter_of_a_record(home: Home) -> None:
    found = home.ok("where", "lines", "k=3")
    became = next(one for one in found["became"] if one["asset"] == "of_lines")
    assert became["filtered"][0]["reason"] == "thirty"


def test_rows_are_read_compared_and_traced(homes: Homes) -> None:
    home = homes.make(Home, "compared").pipeline(PIPELINE).data("lines.jsonl", *rows(1, 2, 3))
    home.ok("run", "of_lines")
    assert home.ok("read", "of_lines") == rows(1, 2)
    more = rows(5)[0] | {"k": 2, "v0": 20}
    home.data("lines.jsonl", rows(1)[0], more, rows(4)[0])
    home.ok("run", "of_lines", "changed_rows")
    found = home.ok("diff", "of_lines", "1", "2")
    assert (found["added"], found["removed"], found["changed"]) == (1, 0, 1)
    [row] = [row for row in found["rows"] if row["kind"] == "changed"]
    assert row["key"] == {"k": 2}
    assert row["before"] == rows(2)[0]
    assert row["after"] == more
    traced = home.ok("trace", "latest", "--key", "k=4,v0=40")
    assert traced["history"][0]["diff"]["key"]["new"] == 0


# ---- values that are hard to ask for --------------------------------------------------------

ODD = """\
import tallyman as tm

tm.source("words", "data/words.jsonl", "json", key="k", schema="k string, v string")
tm.source("blobs", "data/blobs.parquet", "parquet", key="b")
tm.source("pairs", "data/blobs.parquet", "parquet", key=["b", "n"])


@tm.asset(key="k")
def kept(words):
    return words


@tm.asset(key="k", trace="changes")
def louder(words):
    return words.update({"v": "upper(v)"})


@tm.asset(key="b")
def of_blobs(blobs):
    return blobs.filter("n < 3", reason="three").withColumn("d", "date'2026-01-02'")


@tm.asset(key=["b", "n"])
def of_pairs(pairs):
    return pairs


@tm.asset(key="b")
def by_blob(blobs):
    return blobs.groupBy("b").agg(n="sum(n)")
"""
BLOBS = [b"\x00\xff\xfe", b"abc", b"\xc3\x28"]


@pytest.fixture(scope="module")
def odd(homes: Homes) -> Home:
    home = homes.make(Home, "odd").pipeline(ODD)
    texts = [("null", "text"), (None, "nothing"), ("'null'", "quoted"), ("NULL", "big"), ("5", "x")]
    home.data("words.jsonl", *({"k": k, "v": v} for k, v in texts))
    rows = pa.table({"b": pa.array(BLOBS, pa.binary()), "n": [1, 2, 3]})
    pq.write_table(rows, home.path / "data" / "blobs.parquet")
    home.ok("run")
    return home


@pytest.mark.parametrize(
    ("asked", "v"),
    [("k='null'", "text"), ("k=NULL", "nothing"), ("k=''null''", "quoted")],
)
def test_null_and_the_text_null_are_told_apart(odd: Home, asked: str, v: str) -> None:
    assert [row["v"] for row in odd.ok("why", "kept", asked)["hops"][0]["shown"]] == [v]
    found = odd.ok("where", "words", asked)
    assert [record["values"]["v"] for record in found["records"]] == [v]
    traced = odd.ok("trace", "latest", "--asset", "louder", "--key", asked)
    assert traced["history"][0]["diff"]["v"] == {"old": v, "new": v.upper()}


def test_a_value_is_shown_as_it_is_asked_for(odd: Home) -> None:
    for asked in ("k=null", "k='null'", "k=''null''", "k=5"):
        said = odd.printed("why", "kept", asked).stdout
        assert said.count(f" {asked}  ") == 2, said  # the row, and the record
    for asked, v in (('k="null"', "text"), ("k='NULL'", "big"), ("k='5'", "x")):
        assert [row["v"] for row in odd.ok("why", "kept", asked)["hops"][0]["shown"]] == [v]


def test_python_takes_values_as_they_are(odd: Home) -> None:
    with Project.open(odd.path) as project:
        _ask(project)


def _ask(project: Project) -> None:
    why: Callable[..., Any] = project.why
    assert why("kept", {"k": 5}).hops[0].shown[0]["v"] == "x"
    assert why("kept", {"k": None}).hops[0].shown[0]["v"] == "nothing"
    assert why("kept", {"k": "'null'"}).hops[0].shown[0]["v"] == "text"
    assert why("of_blobs", {"b": b"abc"}).rows == 1
    assert why("of_blobs", {"d": date(2026, 1, 2)}).rows == 2
    assert project.where("words", {"k": None}).count == 1
    assert project.where("blobs", {"n": 2}).count == 1


@pytest.mark.parametrize(("dataset", "asked"), [("of_blobs", "b=00FFFE"), ("by_blob", "b=00fffe")])
def test_bytes_are_shown_and_asked_for_in_hex(odd: Home, dataset: str, asked: str) -> None:
    found = odd.ok("why", dataset, asked)
    assert found["hops"][0]["shown"][0]["b"] == "00FFFE"
    [record] = found["hops"][0]["inputs"][0]["records"]
    assert (record["key"], record["values"]) == ("00FFFE", {"b": "00FFFE", "n": 1})
    assert "b=00FFFE" in odd.printed("why", dataset, asked).stdout
    assert odd.printed("why", dataset, asked, "--keys").stdout == "00FFFE\n"


def test_a_record_with_a_key_of_bytes_is_followed(odd: Home) -> None:
    by_asset = {one["asset"]: one for one in odd.ok("where", "blobs", "b=00FFFE")["became"]}
    assert by_asset["of_blobs"]["shown"][0]["b"] == "00FFFE"
    assert by_asset["by_blob"]["shown"] == [{"b": "00FFFE", "n": 1}]
    ended = {one["asset"]: one for one in odd.ok("where", "blobs", "b=C328")["became"]}
    assert ended["of_blobs"]["filtered"][0]["reason"] == "three"
    pair = odd.ok("where", "pairs", "b=C328", "n=3")["became"]
    assert pair[0]["shown"] == [{"b": "C328", "n": 3}]
    [record] = odd.ok("why", "of_pairs", "b=C328")["hops"][0]["inputs"][0]["records"]
    assert record["values"] == {"b": "C328", "n": 3}


def test_evidence_of_bytes_is_text(odd: Home) -> None:
    """An invalid UTF-8 text in Parquet cannot be read by others."""
    [place] = odd.path.glob("runs/*/of_blobs/adjoint")
    for file in place.rglob("*.parquet"):
        if Path(file).is_file():
            keys = pq.read_table(file)["source_key"].to_pylist()
            assert keys == ["C328"]
    assert json.loads(json.dumps(odd.ok("read", "of_blobs")))[0]["b"] == "00FFFE"
