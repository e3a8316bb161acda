"""Sound data of an odd kind: any key, any name, values at their limits, one giant group, or nothing."""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from tests.engine.conftest import Ran, Workshop
from tests.world.scale import FULL

KEYS = [
    *[
        '"',
        "\\",
        'a"b\\c',
        "'",
        "''",
        "`",
        "😀",
        "ключ",
        "é",
        "e\u0301",
        "<script>alert(1)</script>",
    ],
    *[
        "'; DROP TABLE x; --",
        "\t",
        "a\u2028b",
        " ",
        "a ",
        "..",
        "../x",
        "%2F",
        "a+b",
        "a/b",
        "null",
    ],
    *["NULL", "@x#1", '{"a":1}', "K", "k", "\u0001", "1.0", "true", "*", "x" * 300],
]

NAMES = (
    "group_key string, source_key string, value_x int, x int, _corrupt_record string, `key` int, "
    "`count` int, step_id string, run_id string, epoch string, `all` string, child_key string, "
    "parent_key string, value string, _metadata string, `a.b` int, `two words` int, `back``tick` int, "
    "tags array<int>"
)

PIPELINE = f"""
ANY = dict(thresholds=dict(absolute=0, percentage=1))
tm.source("keys", "data/keys.json", schema="id string, n int", key="id")
tm.source("named", "data/named.parquet", format="parquet", schema={NAMES!r}, key="key")
tm.source("limits", "data/limits.json", key="id",
    schema="id string, d38 decimal(38,0), d3838 decimal(38,38), d10 decimal(10,2), big bigint, f double")
tm.source("mixed", "data/mixed.json", schema="id string, kind string, text string, box struct<a:int,b:array<struct<c:int,d:string>>>", key="id")
tm.source("skewed", "data/skewed", format="parquet", schema="id bigint, k string", key="id")
tm.source("empty", "data/empty.json", schema="id string, n int", key="id")
tm.source("empty_csv", "data/empty.csv", format="csv", schema="id string, n int", key="id")
tm.source("headed", "data/headed.csv", format="csv", schema="id string, n int", key="id")

@tm.asset(**ANY)
def keys_grouped(keys):
    return keys.filter("n <> 3").groupBy("id").agg(n="sum(n)").expect("small", "n < 5").withColumn("m", "n + 1")

@tm.asset(**ANY)
def named_grouped(named):
    return (
        named.filter("x > 0").groupBy("group_key", "all").agg(
            count="count(*)", source_key="max(source_key)", value_x="sum(value_x)", key="min(key)",
            x="max(_corrupt_record)", value="max(`a.b` + `two words` + `back``tick`)",
            step_id="max(step_id)",
        ).expect("key", "count < 3").filter("key > 1")
    )

@tm.asset(**ANY)
def named_exploded(named):
    return named.dropDuplicates(["group_key", "a.b"]).explode("tags", "child_key").filter("child_key > 1")

@tm.asset(**ANY)
def limits_grouped(limits):
    return limits.groupBy("id").agg(
        d38="max(d38)", d3838="sum(d3838)", d10="sum(d10)", big="max(big)", f="max(f)", n="count(*)",
    )

@tm.asset(**ANY)
def guarded(mixed):
    return (
        mixed.filter("kind = 'n'").withColumn("v", "cast(text AS int)").filter("v <> 0")
        .withColumn("share", "100 / v").expect("small", "cast(text AS int) + v < 100")
        .groupBy("kind").agg(total="sum(cast(text AS int))", first="element_at(collect_list(text), 1)")
    )

@tm.asset(**ANY, evidence="digest")
def guarded_digest(mixed):
    return (
        mixed.filter("kind = 'n'").withColumn("v", "cast(text AS int)").filter("v <> 0")
        .withColumn("share", "100 / v").expect("small", "cast(text AS int) + v < 100")
        .groupBy("kind").agg(total="sum(cast(text AS int))", first="element_at(collect_list(text), 1)")
    )

@tm.asset(**ANY)
def nested(mixed):
    return (
        mixed.select("id", "box", "box.b AS parts").explode("parts", "part")
        .withColumn("c", "part.c").filter("c > 1").drop("parts").groupBy("box").agg(n="count(*)", d="max(part.d)")
    )

@tm.asset(**ANY)
def skewed_grouped(skewed):
    return skewed.groupBy("k").count()

@tm.asset
def empty_read(empty):
    return empty.filter("n > 1").expect("x", "n < 4")

@tm.asset
def empty_grouped(empty_csv):
    return empty_csv.groupBy("id").count()

@tm.asset
def empty_whole(headed):
    return headed.groupBy().agg(n="count(*)")

@tm.asset(thresholds=tm.Thresholds(on_empty="allow"))
def after_empty(empty_read, empty_grouped):
    return empty_read.join(empty_grouped, "id", unmatched="filter").union(empty_read.select("id", "n", "1L"))

@tm.asset(thresholds=tm.Thresholds(on_empty="halt"))
def empty_refused(empty):
    return empty

@tm.asset(**ANY)
def nothing_left(skewed):
    return skewed.filter("id < 10").expect("none", "id < 0")

@tm.asset
def after_nothing(nothing_left):
    return nothing_left.groupBy("k").agg(n="count(*)")
"""


def _named(i: int) -> tuple[object, ...]:
    group = f"g{i % 3}"
    own = (group, f"s{i}", i, i % 4, None if i % 2 else f"c{i}", i, 7, "m", "r", "e", f"a{i % 2}")
    return (*own, f"child{i}", "parent", "v", "meta", i % 2, i, i, [i, 1, i * 2])


@pytest.fixture(scope="module")
def home(workshop: Callable[..., Workshop], spark: SparkSession) -> Workshop:
    made = workshop(interpreted=not FULL).pipeline(PIPELINE)
    made.lines("keys.json", [{"id": k, "n": n} for k in KEYS for n in (1, 2 + i_of(k) % 3)])
    named = spark.createDataFrame([_named(i) for i in range(12)], NAMES)
    made.parquet("named.parquet", named)
    made.lines("limits.json", LIMITS)
    texts = [
        ("n", "5"),
        ("x", "abc"),
        ("n", "0"),
        (None, "zz"),
        ("n", "90"),
        ("n", None),
        ("n", "7"),
    ]
    boxes = [None, {"a": 1, "b": None}, {"a": 1, "b": []}, {"a": 2, "b": [{"c": 1, "d": "p"}]}]
    boxes += [{"a": 3, "b": [{"c": 2, "d": "q"}, {"c": 3, "d": None}, None]}] * 3
    rows = zip(texts, boxes, strict=True)
    made.lines(
        "mixed.json",
        [{"id": f"m{i}", "kind": k, "text": t, "box": b} for i, ((k, t), b) in enumerate(rows)],
    )
    many = spark.range(30_000).selectExpr("id", "if(id < 29000, 'giant', string(id % 7)) AS k")
    made.parquet("skewed", many)
    made.raw("empty.json", b"").raw("empty.csv", b"").raw("headed.csv", b"n,id\n")
    return made


def i_of(key: str) -> int:
    return KEYS.index(key)


NINES = "9" * 38
LIMITS = [
    f'{{"id":"max","d38":{NINES},"d3838":0.{NINES},"d10":99999999.99,"big":{2**63 - 1},"f":1.7976931348623157e308}}',
    f'{{"id":"min","d38":-{NINES},"d3838":-0.{NINES},"d10":-99999999.99,"big":{-(2**63)},"f":4.9e-324}}',
    f'{{"id":"d38","d38":1{NINES}}}',
    '{"id":"d3838","d3838":1}',
    '{"id":"d10","d10":100000000}',
    '{"id":"big","big":9223372036854775808}',
]


@pytest.fixture(scope="module")
def ran(home: Workshop) -> Ran:
    return home.run()


EXPECTED_HALTS = {"empty_refused"}
ASSETS = [line[4 : line.index("(")] for line in PIPELINE.splitlines() if line.startswith("def ")]


@pytest.mark.parametrize("name", ASSETS)
def test_every_asset_balances_on_keys(ran: Ran, name: str) -> None:
    assert name in EXPECTED_HALTS or ran.asset(name).error is None
    assert ran[name].balanced
    if name != "guarded_digest":
        assert ran[name].accounted().total() == ran[name].door["total_records"]


def test_any_text_can_be_a_key(ran: Ran) -> None:
    files = ran["keys_grouped"]
    assert files.accounted() == Counter(dict.fromkeys(KEYS, 2))
    assert files.door["null_keys"] in (0, 2)  # "@x#1" reads like a place
    failed = {k for i, k in enumerate(KEYS) if 2 + i % 3 == 4}
    assert {r["source_key"] for r in files.rejections} == failed
    groups = {json.loads(r["context"]["group_key"])["id"] for r in files.rejections}
    assert groups == failed
    assert files.fates["ERROR"] == 2 * len(failed)
    kept = {row["id"]: row["n"] for row in ran.rows("keys_grouped")}
    assert kept == {k: 1 if 2 + i % 3 == 3 else 3 for i, k in enumerate(KEYS) if k not in failed}


def test_columns_may_be_named_like_those_of_the_evidence(ran: Ran) -> None:
    rows = [dict(zip(NAMES_ONLY, _named(i), strict=True)) for i in range(12)]
    groups: dict[tuple[object, object], list[dict[str, object]]] = {}
    for row in rows:
        if row["x"]:
            groups.setdefault((row["group_key"], row["all"]), []).append(row)
    files = ran["named_grouped"]
    failed = {row["key"] for g in groups.values() if len(g) >= 3 for row in g}
    assert {int(r["source_key"]) for r in files.rejections} == failed
    found = {(r["group_key"], r["all"]): r for r in ran.rows("named_grouped")}
    kept = {k: g for k, g in groups.items() if len(g) < 3 and min(r["key"] for r in g) > 1}
    assert set(found) == set(kept)
    for key, group in kept.items():
        assert found[key]["count"] == len(group)
        assert found[key]["value_x"] == sum(r["value_x"] for r in group)
        assert found[key]["value"] == max(r["a.b"] + 2 * r["two words"] for r in group)
    assert ran["named_exploded"].fates == {"EXPLODED": 6, "FILTERED": 6}
    [sub] = ran["named_exploded"].subs
    assert sub["units_in"] == 18


NAMES_ONLY = [
    *("group_key", "source_key", "value_x", "x", "_corrupt_record", "key", "count", "morphism_id"),
    *("run_id", "epoch", "all", "child_key", "parent_key", "value", "_metadata", "a.b"),
    *("two words", "back`tick", "tags"),
]


def test_numbers_at_their_limits_are_kept_and_beyond_them_rejected(ran: Ran) -> None:
    rows = {row["id"]: row for row in ran.rows("limits_grouped")}
    assert rows["max"]["d38"] == Decimal(NINES)
    assert rows["min"]["d38"] == Decimal("-" + NINES)
    assert rows["max"]["d3838"] == Decimal("0." + NINES)
    assert rows["min"]["big"] == -(2**63)
    assert rows["max"]["f"] == 1.7976931348623157e308
    found = {
        (r["source_key"], r["error_type"], r["context"]["field"])
        for r in ran["limits_grouped"].rejections
    }
    assert found == {(k, "type_cast_error", k) for k in ("d38", "d3838", "d10", "big")}


@pytest.mark.parametrize("name", ["guarded", "guarded_digest"])
def test_a_filter_protects_a_later_cast(ran: Ran, name: str) -> None:
    assert ran[name].fates == {"AGGREGATED": 2, "FILTERED": 4, "ERROR": 1}
    [row] = ran.rows(name)
    assert row["total"] == 12


def test_nested_columns_are_carried_grouped_and_exploded(ran: Ran) -> None:
    assert ran["nested"].fates == {"EXPLODED": 4, "FILTERED": 3}
    [row] = ran.rows("nested")
    assert (row["n"], row["d"], row["box"]["a"]) == (6, "q", 3)


def test_one_giant_group_is_a_group(ran: Ran) -> None:
    counts = {row["k"]: row["count"] for row in ran.rows("skewed_grouped")}
    assert counts["giant"] == 29_000
    assert ran["skewed_grouped"].fates == {"AGGREGATED": 30_000}


def test_nothing_in_is_nothing_out_and_balances(ran: Ran) -> None:
    for name in ("empty_read", "empty_grouped", "after_empty"):
        assert ran.asset(name).records_in == 0
        assert ran.rows(name) == []
    assert ran.read("empty_read").columns == ["id", "n"]
    assert ran.rows("empty_whole") == [{"n": 0}]


def test_an_empty_input_halts_where_the_asset_says_so(ran: Ran) -> None:
    refused = ran.asset("empty_refused")
    assert refused.status == "halted"
    assert refused.error is not None
    assert refused.error["code"] == "empty_input"


def test_all_records_rejected_or_filtered_leave_an_empty_output_that_can_be_read(ran: Ran) -> None:
    assert ran["nothing_left"].fates == {"ERROR": 10, "FILTERED": 29_990}
    assert len(ran["nothing_left"].rejections) == 10
    assert ran.rows("after_nothing") == []
