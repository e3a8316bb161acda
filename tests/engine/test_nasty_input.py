"""Files as nobody wants them: every line and row of them is accounted for, or the run says why not."""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tallyman.engine.evidence import kept
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

# Lines that break inside a value after the key: Spark's parser keeps the key only if it types that value.
BREAKING_LATE = [
    ('{"id":"escape","n":7,"day":"2026-0\\u7"}', "escape"),
    ('{"id":"open","n":7,"day":"2026-01-07\t}', "open"),
    ('{"id":"half an escape","n":7,"day":"2026-01-07\\u"}', "half an escape"),
]

PIPELINE = """
ANY = dict(thresholds=dict(absolute=0, percentage=1))
RECORD = "id string, n int, name string NOT NULL"
tm.source("junk", "data/junk.json", schema=RECORD, key="id")
tm.source("junk_csv", "data/junk.csv", format="csv", schema=RECORD, key="id")
tm.source("tricky", "data/tricky.json", schema="id string, n int", key="id")
tm.source("numbered", "data/numbered.json", schema="id bigint, v string", key="id")
tm.source("windows", "data/windows.json", schema="id string, n int", key="id")
tm.source("holes", "data/holes", format="parquet", schema="id string, n int NOT NULL, `_metadata` string")
tm.source("odd_files", "data/odd", schema="n int")
tm.source("mixed", "data/mixed.json", schema="id string, n int, day date", key="id")
tm.source("unnamed", "data/unnamed.json", schema="id string, n int, day date", key="id")

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
def holes_read(holes):
    return holes.select("id", "n")

@tm.asset(**ANY)
def odd_files_read(odd_files):
    return odd_files.filter("n > 1")

@tm.asset(**ANY)
def mixed_read(mixed):
    return mixed.filter("n > 1")

@tm.asset(**ANY)
def unnamed_read(unnamed):
    return unnamed.filter("n > 1")
"""


@pytest.fixture(scope="module")
def home(workshop: Callable[..., Workshop]) -> Workshop:
    made = workshop(interpreted=True).pipeline(PIPELINE)
    made.lines("junk.json", [line for line, *_ in JSON_LINES])
    made.lines("junk.csv", ["name,extra,id,n", *(line for line, _ in CSV_LINES)])
    made.lines("tricky.json", [line for line, _ in TRICKY])
    numbers = ['{"id":1,"v":"a"}', '{"id":-0,"v":"a"}', '{"id": 7 ,"v":"b"}', '{"id":123, "v":"a"}']
    made.lines("numbered.json", [*numbers, '{"id":"8","v":"a"}', '{"v":"a","id":9}'])
    late = [line for line, _ in BREAKING_LATE]
    made.lines("mixed.json", ['{"id":5,"n":1}', '{"id":"sound","n":1}', "{", *late])
    made.lines("unnamed.json", ['{"n":1}', '{"id":"sound","n":1}', *late])
    windows = "\r\n".join(['{"id":"a","n":1}', '{"id":"b","n":2}', "", '{"id":"c","n":3}', ""])
    made.raw("windows.json", b"\xef\xbb\xbf" + windows.encode())
    columns = {"id": ["a", None, "c"], "n": [1, 2, None], "_metadata": ["x", "y", None]}
    (made.home / "data" / "holes").mkdir()
    kinds = pa.schema([("id", pa.string()), ("n", pa.int32()), ("_metadata", pa.string())])
    for name in ("plain.parquet", "a b+c#d é%41[1].parquet"):
        pq.write_table(pa.table(columns, schema=kinds), made.home / "data" / "holes" / name)
    for name in ("x y+z#ü%41{1}.json", "sub dir/ü.json"):
        made.lines(f"odd/{name}", [{"n": 1}, {"n": 2}, "", {"n": 3}, "{"])
    made.raw("odd/_hidden.json", b"never read")
    return made


@pytest.fixture(scope="module")
def ran(home: Workshop) -> Ran:
    return home.run()


ASSETS = [line[4 : line.index("(")] for line in PIPELINE.splitlines() if line.startswith("def ")]


@pytest.mark.parametrize("name", ASSETS)
def test_every_asset_balances_on_keys(ran: Ran, name: str) -> None:
    assert ran.asset(name).error is None
    assert ran[name].balanced
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


def test_every_rejection_has_its_fields_and_its_text_survives(ran: Ran) -> None:
    for found in ran["junk_read"].rejections:
        assert len(found) == 11
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
    assert sorted(ran["numbered_read"].accounted()) == ["0", "1", "123", "7", "8", "9"]


def test_a_key_before_a_broken_value_is_the_same_at_the_door_and_in_the_records(ran: Ran) -> None:
    """The first line decides how a key is found in text: by its quotes, without them, or not."""
    keys = [key for _, key in BREAKING_LATE]
    assert ran["mixed_read"].accounted() == Counter(["5", "sound", "@mixed.json#3", *keys])
    places = [f"@unnamed.json#{number}" for number in (1, 3, 4, 5)]
    assert ran["unnamed_read"].accounted() == Counter(["sound", *places])
    for name in ("mixed_read", "unnamed_read"):
        assert Counter(r["error_type"] for r in ran[name].rejections)["parse_error"] >= len(keys)


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm(ran: Ran) -> None:
    assert ran["windows_read"].accounted() == Counter("abc")
    assert ran["windows_read"].fates == {"PASS_THROUGH": 2, "FILTERED": 1}
    assert ran["windows_read"].door["blank_lines"] == 1


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


def test_a_header_that_does_not_fit_is_told(
    workshop: Callable[..., Workshop], spark: SparkSession
) -> None:
    made = workshop(interpreted=True).pipeline("""
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
    assert "the first line is not a header: 'a,1'" in messages["a"]
    assert "the header has no column 'n'" in messages["b"]
    assert "x.parquet" in messages["c"]
    assert "has nothing to read at data/absent.json" in messages["d"]
    assert "column 'id' is declared int, the files hold string" in messages["e"]
    assert "the files have no column 'm'" in messages["e"]


LONG = 20_000_000
"""The most characters of one text in JSON that Spark reads."""


@pytest.mark.parametrize(
    ("first", "by_spark"),
    [('{"id":"a","n":1}', False), ('{"n":1}', True)],
    ids=["fast", "line by line, with Spark"],
)
def test_a_line_above_the_limit_of_the_json_reader_is_a_rejection_that_says_so(
    workshop: Callable[..., Workshop], monkeypatch: pytest.MonkeyPatch, first: str, by_spark: bool
) -> None:
    monkeypatch.setattr(kept, "LETTER_BYTES", 0 if by_spark else kept.LETTER_BYTES)
    made = workshop(interpreted=True).pipeline("""
tm.source("long", "data/long.json", schema="id string, n int, name string", key="id")

@tm.asset(thresholds="permissive")
def long_read(long):
    return long.select("id", "n")
""")
    line = '{"id":"b","n":2,"name":"' + "x" * (LONG + 1) + '"}'
    others = (f'{{"id":"{key}","n":3}}' for key in "cdef")  # permissive: a fifth may be rejected
    made.lines("long.json", [first, line, *others])
    ran = made.run()
    files = ran["long_read"]
    assert ran.result.exit_code == 0, ran.result.to_json()
    assert files.fates == {"PASS_THROUGH": 5, "ERROR": 1}
    [rejection] = files.rejections
    assert (rejection["source_key"], rejection["error_type"]) == ("b", "parse_error")
    assert rejection["actual"].startswith(f"{len(line)} characters: JSON is read up to {LONG} ")
    assert files.summary[0]["error_type"] == "parse_error"


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
    workshop: Callable[..., Workshop],
) -> None:
    made = workshop(interpreted=True).pipeline(MANY)
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
