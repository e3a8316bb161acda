"""Input as nobody wants it: every line, row and key of it is accounted for, or the run says why not."""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.engine.conftest import Ran, Workshop

OK, PARSE, CAST, NULL = "ok", ["parse_error"], ["type_cast_error"], ["null_error"]
SOUND = '"n":1,"name":"a"}'

# Each line of a JSON input with schema "id string, n int, name string NOT NULL": what it becomes, and its key.
JSON_LINES: list[tuple[str | bytes, object, str | None]] = [
    ('{"id":"sound",' + SOUND, OK, "sound"),
    ('{"id":"cut","n":2,"na', PARSE, "cut"),
    ("null", PARSE, None),
    ("[]", PARSE, None),
    ('[{"id":"listed",' + SOUND + ',{"id":"other",' + SOUND + "]", PARSE, "listed"),
    ('{"id":"two",' + SOUND + '{"id":"other",' + SOUND, PARSE, "two"),
    ('{"id":"two, spaced",' + SOUND + ' {"id":"other",' + SOUND, PARSE, "two, spaced"),
    ('{"id":"two, comma",' + SOUND + ',{"id":"other",' + SOUND, PARSE, "two, comma"),
    ('{"id":"two, tab",' + SOUND + '\t{"id":"other",' + SOUND, PARSE, "two, tab"),
    ('{"id":"trailing",' + SOUND + " garbage", PARSE, "trailing"),
    ('{"id":"brace",' + SOUND + "}", PARSE, "brace"),
    ('{"id":"garbage, brace",' + SOUND + " x}", PARSE, "garbage, brace"),
    ('{"id":"bracket",' + SOUND + "],x}", PARSE, "bracket"),
    (b'{"id":"nul inside","n":1,"name":"a\x00b"}', PARSE, "nul inside"),
    (b'\x00\x00\x00{"id":"nul before","n":1,"name":"a"}', PARSE, "nul before"),
    (b'{"id":"no utf8","n":1,"name":"\xff\xfe"}', PARSE, "no utf8"),
    ("", None, None),
    (" \t ", None, None),
    ('{"id":"word","n":"x","name":"a"}', CAST, "word"),
    ('{"id":"too big","n":3000000000,"name":"a"}', CAST, "too big"),
    ('{"id":"fraction","n":1.5,"name":"a"}', CAST, "fraction"),
    ('{"id":"absent","n":1}', NULL, "absent"),
    ('{"id":"null","n":1,"name":null}', NULL, "null"),
    ('{"id":"both","n":"x"}', [*NULL, *CAST], "both"),
    ("{" + SOUND, OK, None),
    ('{"id":null,' + SOUND, OK, None),
    ('{"id":"sound",' + SOUND, OK, "sound"),
    ('"text"', PARSE, None),
    ("42", PARSE, None),
    ("{", PARSE, None),
    ("{}", NULL, None),
    ('{"id":"more","x":{"y":[{"z":1},{"z":2}]},' + SOUND, OK, "more"),
    ('{"id":"braces","n":1,"name":"}{ } { },{"}', OK, "braces"),
    ('{"id":"deep","n":1,"name":{"a":1}}', OK, "deep"),
    ('{"id":"crlf",' + SOUND + "\r", OK, "crlf"),
    ('{"id":"@home",' + SOUND, OK, "@home"),
    ('{"x":{"id":"inner"},"id":"outer",' + SOUND, OK, "outer"),
    ('  {"id":"indented",' + SOUND + "  ", OK, "indented"),
    ("{'id':'single','n':1,'name':'a'}", OK, "single"),
    ('{"id":"no value","n":tru,"name":"a"}', PARSE, "no value"),
    ('{"id":"\\u0065scaped",' + SOUND, OK, "escaped"),
]

# The same for CSV, whose header has its columns in another order and one more.
CSV_LINES: list[tuple[str | bytes, object]] = [
    ("a,x,sound,1", OK),
    ("a,x,few", PARSE),
    ("a,x,many,1,more", PARSE),
    ('"a, b",x,quoted,1', OK),
    ('"open,x,unclosed,1', PARSE),
    (",x,absent,1", NULL),
    ("a,x,word,one", CAST),
    (",x,both,one", [*NULL, *CAST]),
    (b"a\x00b,x,nul inside,1", OK),
    (b"\xff\xfe,x,no utf8,1", PARSE),
    ("", None),
    ("a,x,,5", OK),
    ("#a,x,hash,1", OK),
    ("a,x,crlf,1\r", OK),
    (",,,", NULL),
]

# Keys of records without trouble that a fast reader could mistake for others.
TRICKY = [
    ('{"id":"first","n":1}', "first"),
    ('{"x":{"id":"inner"},"id":"outer","n":1}', "outer"),
    ('{"name":"see \\"id\\":\\"quoted\\" there","id":"plain","n":1}', "plain"),
    ('{"id":"old","n":1,"id":"new"}', "new"),
]

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
    "`count` int, morphism_id string, run_id string, epoch string, `all` string, child_key string, "
    "parent_key string, value string, _metadata string, `a.b` int, `two words` int, `back``tick` int, "
    "tags array<int>"
)

PIPELINE = f"""
ANY = dict(thresholds=dict(absolute=0, percentage=1))
RECORD = "id string, n int, name string NOT NULL"
tm.source("junk", "data/junk.json", schema=RECORD, key="id")
tm.source("junk_csv", "data/junk.csv", format="csv", schema=RECORD, key="id")
tm.source("tricky", "data/tricky.json", schema="id string, n int", key="id")
tm.source("numbered", "data/numbered.json", schema="id bigint, v string", key="id")
tm.source("windows", "data/windows.json", schema="id string, n int", key="id")
tm.source("keys", "data/keys.json", schema="id string, n int", key="id")
tm.source("named", "data/named.parquet", format="parquet", schema={NAMES!r}, key="key")
tm.source("holes", "data/holes", format="parquet", schema="id string, n int NOT NULL, `_metadata` string")
tm.source("odd_files", "data/odd", schema="n int")
tm.source("limits", "data/limits.json", key="id",
    schema="id string, d38 decimal(38,0), d3838 decimal(38,38), d10 decimal(10,2), big bigint, f double")
tm.source("mixed", "data/mixed.json", schema="id string, kind string, text string, box struct<a:int,b:array<struct<c:int,d:string>>>", key="id")
tm.source("skewed", "data/skewed", format="parquet", schema="id bigint, k string", key="id")
tm.source("empty", "data/empty.json", schema="id string, n int", key="id")
tm.source("empty_csv", "data/empty.csv", format="csv", schema="id string, n int", key="id")
tm.source("headed", "data/headed.csv", format="csv", schema="id string, n int", key="id")

@tm.asset(**ANY)
def junk_read(junk):
    return junk.filter("n < 100")

@tm.asset(**ANY)
def junk_csv_read(junk_csv):
    return junk_csv

@tm.asset
def tricky_read(tricky):
    return tricky.filter("n > 0")

@tm.asset(**ANY)
def numbered_read(numbered):
    return numbered.filter("v = 'a'")

@tm.asset
def windows_read(windows):
    return windows.filter("n > 1")

@tm.asset(**ANY)
def keys_grouped(keys):
    return keys.filter("n <> 3").groupBy("id").agg(n="sum(n)").expect("small", "n < 5").withColumn("m", "n + 1")

@tm.asset(**ANY)
def named_grouped(named):
    return (
        named.filter("x > 0").groupBy("group_key", "all").agg(
            count="count(*)", source_key="max(source_key)", value_x="sum(value_x)", key="min(key)",
            x="max(_corrupt_record)", value="max(`a.b` + `two words` + `back``tick`)",
            morphism_id="max(morphism_id)",
        ).expect("key", "count < 3").filter("key > 1")
    )

@tm.asset(**ANY)
def named_exploded(named):
    return named.dropDuplicates(["group_key", "a.b"]).explode("tags", "child_key").filter("child_key > 1")

@tm.asset(**ANY)
def holes_read(holes):
    return holes.select("id", "n")

@tm.asset(**ANY)
def odd_files_read(odd_files):
    return odd_files.filter("n > 1")

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

@tm.asset
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
def home(workshop: Callable[[], Workshop], spark: SparkSession) -> Workshop:
    made = workshop().pipeline(PIPELINE)
    made.lines("junk.json", [line for line, *_ in JSON_LINES])
    made.lines("junk.csv", ["name,extra,id,n", *(line for line, _ in CSV_LINES)])
    made.lines("tricky.json", [line for line, _ in TRICKY])
    numbers = ['{"id":1,"v":"a"}', '{"id":-0,"v":"a"}', '{"id": 7 ,"v":"b"}', '{"id":123, "v":"a"}']
    made.lines("numbered.json", [*numbers, '{"id":"8","v":"a"}', '{"v":"a","id":9}'])
    windows = "\r\n".join(['{"id":"a","n":1}', '{"id":"b","n":2}', "", '{"id":"c","n":3}', ""])
    made.raw("windows.json", b"\xef\xbb\xbf" + windows.encode())
    made.lines("keys.json", [{"id": k, "n": n} for k in KEYS for n in (1, 2 + i_of(k) % 3)])
    named = spark.createDataFrame([_named(i) for i in range(12)], NAMES)
    made.parquet("named.parquet", named)
    columns = {"id": ["a", None, "c"], "n": [1, 2, None], "_metadata": ["x", "y", None]}
    (made.home / "data" / "holes").mkdir()
    kinds = pa.schema([("id", pa.string()), ("n", pa.int32()), ("_metadata", pa.string())])
    for name in ("plain.parquet", "a b+c#d é%41[1].parquet"):
        pq.write_table(pa.table(columns, schema=kinds), made.home / "data" / "holes" / name)
    for name in ("x y+z#ü%41{1}.json", "sub dir/ü.json"):
        made.lines(f"odd/{name}", [{"n": 1}, {"n": 2}, "", {"n": 3}, "{"])
    made.raw("odd/_hidden.json", b"never read")
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


def test_every_shape_of_broken_json_becomes_what_it_is(ran: Ran) -> None:
    files = ran["junk_read"]
    wanted: Counter[tuple[str, str]] = Counter()
    for number, (_, fate, key) in enumerate(JSON_LINES, 1):
        for kind in fate if isinstance(fate, list) else []:
            wanted[(key or f"@junk.json#{number}", kind)] += 1
    assert Counter((r["source_key"], r["error_type"]) for r in files.rejections) == wanted
    passed = [
        (k or f"@junk.json#{n}") for n, (_, fate, k) in enumerate(JSON_LINES, 1) if fate == OK
    ]
    [partition] = [p for p in files.partitions if p["partition_type"] == "PASS_THROUGH"]
    assert files.keys_of(partition) == Counter(passed)
    nameless = [n for n, (_, fate, k) in enumerate(JSON_LINES, 1) if fate is not None and k is None]
    assert files.door["null_keys"] == len(nameless)
    assert files.door["duplicate_keys"] == 1
    assert files.door["blank_lines"] == 2


def test_every_rejection_has_its_ten_fields_and_its_text_survives(ran: Ran) -> None:
    for found in ran["junk_read"].rejections:
        assert len(found) == 10
        assert all(value is not None for value in found.values())
    actual = {r["source_key"]: r["actual"] for r in ran["junk_read"].rejections}
    assert actual["nul inside"] == '{"id":"nul inside","n":1,"name":"a\0b"}'
    assert actual["too big"] == "3000000000"
    assert actual["word"] == "x"
    assert "\ufffd" in actual["no utf8"]


def test_every_shape_of_broken_csv_becomes_what_it_is(ran: Ran) -> None:
    files = ran["junk_csv_read"]
    wanted = Counter(k for _, fate in CSV_LINES if isinstance(fate, list) for k in fate)
    assert Counter(r["error_type"] for r in files.rejections) == wanted
    assert ran.asset("junk_csv_read").rows_out == sum(fate == OK for _, fate in CSV_LINES)
    assert {"name": "a, b", "id": "quoted", "n": 1} in ran.rows("junk_csv_read")
    assert {"name": "a\0b", "id": "nul inside", "n": 1} in ran.rows("junk_csv_read")
    assert files.door["blank_lines"] == 1


def test_a_key_is_the_parsed_one_however_the_line_is_written(ran: Ran) -> None:
    assert ran["tricky_read"].accounted() == Counter(key for _, key in TRICKY)
    assert sorted(ran["numbered_read"].accounted()) == ['"8"', "0", "1", "123", "7", "9"]


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm(ran: Ran) -> None:
    assert ran["windows_read"].accounted() == Counter("abc")
    assert ran["windows_read"].fates == {"PASS_THROUGH": 2, "FILTERED": 1}
    assert ran["windows_read"].door["blank_lines"] == 1


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


def test_a_required_value_missing_from_parquet_is_an_error_named_by_its_row(ran: Ran) -> None:
    names = ("plain.parquet", "a b+c#d é%41[1].parquet")
    assert {r["source_key"] for r in ran["holes_read"].rejections} == {f"@{n}#3" for n in names}
    assert set(ran["holes_read"].accounted()) == {f"@{n}#{i}" for n in names for i in (1, 2, 3)}
    assert ran["holes_read"].door["null_keys"] == 6


def test_a_line_is_named_by_its_file_whatever_the_file_is_called(ran: Ran) -> None:
    names = ("x y+z#ü%41{1}.json", "sub dir/ü.json")
    assert set(ran["odd_files_read"].accounted()) == {
        f"@{n}#{i}" for n in names for i in (1, 2, 4, 5)
    }
    assert ran["odd_files_read"].fates == {"PASS_THROUGH": 4, "FILTERED": 2, "ERROR": 2}


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


def test_a_header_that_does_not_fit_is_told(
    workshop: Callable[[], Workshop], spark: SparkSession
) -> None:
    made = workshop().pipeline("""
tm.source("headless", "data/headless.csv", format="csv", schema="id string, n int", key="id")
tm.source("other", "data/other.csv", format="csv", schema="id string, n int", key="id")
tm.source("broken", "data/broken", format="parquet", schema="id string", key="id")
tm.source("absent", "data/absent.json", schema="id string", key="id")
tm.source("typed", "data/typed", format="parquet", schema="id int, m int", key="id")

@tm.asset
def a(headless):
    return headless

@tm.asset
def b(other):
    return other

@tm.asset
def c(broken):
    return broken

@tm.asset
def d(absent):
    return absent

@tm.asset
def e(typed):
    return typed
""")
    made.lines("headless.csv", ["a,1", "b,2"]).lines("other.csv", ["id,nn", "a,1"])
    made.raw("broken/x.parquet", b"PAR1 this is no parquet PAR1")
    made.parquet("typed", spark.createDataFrame([("a", 1)], "id string, n int"))
    ran = made.run()
    messages = {a.name: str(a.error and a.error["message"]) for a in ran.result.assets}
    assert ran.result.exit_code != 0
    assert "the first line is no header: 'a,1'" in messages["a"]
    assert "the header has no column 'n'" in messages["b"]
    assert "x.parquet" in messages["c"]
    assert "has nothing to read at data/absent.json" in messages["d"]
    assert "column 'id' is declared int, the files hold string" in messages["e"]
    assert "the files have no column 'm'" in messages["e"]


MANY = """
tm.source("many", "data/many.json", schema="id string, n int", key="id")
tm.source("broken", "data/broken.json", schema="id string, n int", key="id")

@tm.asset(thresholds="permissive")
def many_errors(many):
    return many.expect("positive", "n > 0")

@tm.asset
def all_broken(broken):
    return broken
"""


def test_errors_are_rows_and_a_broken_structure_is_not_read_to_the_end(
    workshop: Callable[[], Workshop],
) -> None:
    made = workshop().pipeline(MANY)
    made.lines("many.json", (f'{{"id":"i{i}","n":{i % 5}}}' for i in range(125_000)))
    made.lines("broken.json", (f"id=i{i} n={i}" for i in range(12_000)))
    ran = made.run()
    assert ran.asset("many_errors").status == "success"
    assert len({r["source_key"] for r in ran["many_errors"].rejections}) == 25_000
    assert len(ran["many_errors"].rejections) == 25_000
    assert sum(row["count"] for row in ran["many_errors"].summary) == 25_000
    stopped = ran.asset("all_broken")
    assert stopped.status == "halted"
    assert stopped.error is not None
    assert stopped.error["code"] == "structural_error"
    assert 0 < len(ran["all_broken"].rejections) <= 100
    assert not (ran["all_broken"].folder / "output").exists()
