"""One hash per meaning: formatting does not change it, and every edit that matters does."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from itertools import combinations
from typing import Any

import pytest

from tallyman.domain.account.fate import Evidence
from tallyman.domain.definition.frame import Frame
from tallyman.domain.pipeline.partition import daily, partitions
from tallyman.domain.pipeline.pipeline import Asset, Source
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.engine.plan.canonical import definition_hash

SEGMENTS = Source(
    name="segments",
    path="data/bookings",
    format="json",
    schema="segment_id string, flight_date date, price decimal(10,2), tags array<string>",
    key=("segment_id",),
    options={"mode": "x"},
)
AIRPORTS = Source(name="airports", path="data/airports.csv", format="csv", schema="code string")
SOURCES = {"segments": SEGMENTS, "airports": AIRPORTS}
ASSET = Asset(name="revenue", function=lambda *_: Frame("x"), inputs=(), key=("flight_date",))


def _plan(segments: Frame, airports: Frame) -> Frame:
    return (
        segments.expect("positive", "price > 0 AND price IS NOT NULL", code="E1")
        .filter("status = 'FLOWN'", reason="not flown")
        .withColumn("kind", "CASE WHEN a THEN 'x' ELSE b END")
        .join(airports.filter("code <> 'XXX'"), "origin = code AND c = d", unmatched="error")
        .explode("tags", "tag")
        .withColumnRenamed("tag", "label")
        .dropDuplicates(["segment_id"])
        .drop("label")
        .groupBy("flight_date")
        .agg(total="sum(price)", n="count(*)")
        .select("flight_date", "total AS sum", name="last")
    )


def _hash(plan: Frame | None = None, **changes: Any) -> str:
    given: dict[str, Any] = {
        "asset": ASSET,
        "sources": SOURCES,
        "evidence": Evidence.KEYS,
        "thresholds": Thresholds(),
    }
    return definition_hash(plan or _plan(s, a), **{**given, **changes})


s, a = Frame("segments"), Frame("airports")


def test_the_same_plan_built_twice_has_one_hash() -> None:
    assert _hash(_plan(Frame("segments"), Frame("airports"))) == _hash()
    assert len(_hash()) == 64


SAME: dict[str, tuple[str, str]] = {
    "spaces": ("price>0", "  price  >\n\t0 "),
    "keyword case": ("a AND b is not null", "a and b IS NOT NULL"),
    "case": ("CASE WHEN a THEN b ELSE c END", "case when a then b else c end"),
    "in": ("a NOT IN (1, 2) OR b", "a not in(1,2) or b"),
    "comments": ("a /* why */ > 0 -- and so on", "a > 0"),
    "line comment": ("a > 0 -- it's\n AND b", "a > 0 AND b"),
    "alias": ("total AS sum", "total as sum"),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_formatting_does_not_change_it(pair: tuple[str, str]) -> None:
    one, other = pair
    assert _hash(s.filter(one)) == _hash(s.filter(other))
    assert _hash(s.withColumn("x", one)) == _hash(s.withColumn("x", other))
    assert _hash(s.groupBy("k").agg(x=one)) == _hash(s.groupBy("k").agg(x=other))
    assert _hash(s.update({"x": one}, where=one)) == _hash(s.update({"x": other}, where=other))
    assert _hash(s.delete(one)) == _hash(s.delete(other))
    added = [s.aggregate(["k"], where=text, x=text) for text in pair]
    assert _hash(added[0]) == _hash(added[1])


DIFFERENT: dict[str, tuple[str, ...]] = {
    "a string is no column": ("x = 'a'", "x = a", 'x = "a"', "x = `a`"),
    "numbers have types": ("x = 1", "x = 1.0", "x = '1'", "x = 1L", "x = 1e0", "x = 1 L"),
    "strings keep their blanks": ("x = 'a b'", "x = 'a  b'", "x = 'A b'", "x = ' a b'"),
    "strings keep what looks like a comment": ("x = 'a'", "x = 'a -- b'", "x = 'a /* b */'"),
    "a doubled quote is a quote": ("x = 'a''b'", "x = 'a' 'b'", "x = 'ab'"),
    "a backslash is kept": (r"x = 'a\nb'", r"x = 'anb'", r"x = r'a\nb'", "x = 'a\nb'"),
    "names have case": ("x AS end", "x AS END", "x end", "x END", "x AS `End`"),
    "fields have case": ("s.end + 1", "s.END + 1", "s . End + 1"),
    "a name may be a keyword": ("struct(end, 1)", "struct(END, 1)", "struct(case)", "struct(CASE)"),
    "a text may be a name": ("null", " null", "NULL", "(null)"),
    "a comment may go on behind a backslash": ("a -- \\\n + b", "a + b", "a"),
    "a comment may end with a carriage return": ("a -- x\r + b", "a", "a + b"),
    "comments may be nested": ("a /* /* */ + b */", "a", "a + b"),
    "signs are not glued": ("a - -b", "a --b", "a + b"),
    "words are not cut": ("0b12 + 1", "0b1 2 + 1", "0x1Fg + 1", "0x1F g + 1", "1a + 1", "1 a + 1"),
    "brackets count": ("a * (b + c)", "a * b + c", "(a * b) + c"),
    "what cannot be read is taken as it is": ("'a", "'a ", "' a"),
}


@pytest.mark.parametrize("texts", DIFFERENT.values(), ids=DIFFERENT)
def test_different_meanings_have_different_hashes(texts: tuple[str, ...]) -> None:
    for one, other in combinations(texts, 2):
        assert _hash(s.filter(one)) != _hash(s.filter(other)), (one, other)
        assert _hash(s.select(one)) != _hash(s.select(other)), (one, other)


PLANS: dict[str, Callable[[], Frame]] = {
    "nothing": lambda: s,
    "another input": lambda: a,
    "filter": lambda: s.filter("x"),
    "reason": lambda: s.filter("x", reason="y"),
    "filter name": lambda: s.filter("x", name="x"),
    "reason as name": lambda: s.filter("x", name="y"),
    "expect": lambda: s.expect("r", "x"),
    "rule": lambda: s.expect("q", "x"),
    "code": lambda: s.expect("r", "x", code="E1"),
    "expect name": lambda: s.expect("r", "x", name="E1"),
    "twice": lambda: s.filter("x").filter("x"),
    "select": lambda: s.select("x"),
    "select two": lambda: s.select("x", "y"),
    "order of columns": lambda: s.select("y", "x"),
    "one text": lambda: s.select("x, y"),
    "drop": lambda: s.drop("x"),
    "drop two": lambda: s.drop("x", "y"),
    "column": lambda: s.withColumn("x", "y"),
    "column swapped": lambda: s.withColumn("y", "x"),
    "columns": lambda: s.withColumns({"x": "y", "z": "y"}),
    "columns one by one": lambda: s.withColumn("x", "y").withColumn("z", "y"),
    "rename": lambda: s.withColumnRenamed("x", "y"),
    "rename back": lambda: s.withColumnRenamed("y", "x"),
    "join": lambda: s.join(a, "x"),
    "join by equality": lambda: s.join(a, "x = x"),
    "join on two": lambda: s.join(a, ["x", "y"]),
    "join pairs": lambda: s.join(a, "x = y"),
    "join pairs swapped": lambda: s.join(a, "y = x"),
    "join left": lambda: s.join(a, "x", how="left"),
    "join left error": lambda: s.join(a, "x", how="left", unmatched="error"),
    "join filter": lambda: s.join(a, "x", unmatched="filter"),
    "join expand": lambda: s.join(a, "x", fanout="expand"),
    "join another": lambda: s.join(s, "x"),
    "join filtered": lambda: s.join(a.filter("x"), "x"),
    "join filtered else": lambda: s.join(a.filter("y"), "x"),
    "join then filter": lambda: s.join(a, "x").filter("x"),
    "union": lambda: s.union(a),
    "union by name": lambda: s.unionByName(a),
    "union other way": lambda: a.union(s),
    "union filtered": lambda: s.union(a.filter("x")),
    "union then filter": lambda: s.union(a).filter("x"),
    "group": lambda: s.groupBy("x").agg(n="count(*)"),
    "group by two": lambda: s.groupBy("x", "y").agg(n="count(*)"),
    "group by none": lambda: s.groupBy().agg(n="count(*)"),
    "aggregate": lambda: s.groupBy("x").agg(n="sum(y)"),
    "aggregate name": lambda: s.groupBy("x").agg(m="sum(y)"),
    "explode": lambda: s.explode("x"),
    "explode alias": lambda: s.explode("x", "y"),
    "explode outer": lambda: s.explode("x", outer=True),
    "duplicates": lambda: s.dropDuplicates(),
    "duplicates of none": lambda: s.dropDuplicates([]),
    "duplicates of x": lambda: s.dropDuplicates(["x"]),
    "update": lambda: s.update({"x": "y"}),
    "update swapped": lambda: s.update({"y": "x"}),
    "update two": lambda: s.update({"x": "y", "z": "y"}),
    "update two in another order": lambda: s.update({"z": "y", "x": "y"}),
    "update some": lambda: s.update({"x": "y"}, where="z"),
    "update name": lambda: s.update({"x": "y"}, name="z"),
    "update number": lambda: s.update({"x": "y"}, seq=11),
    "update looks up": lambda: s.update({"x": "y"}, join={"a": (a, "x = y")}),
    "update looks up otherwise": lambda: s.update({"x": "y"}, join={"a": (a, "x = z")}),
    "update looks up by name": lambda: s.update({"x": "y"}, join={"a": (a, "x")}),
    "update, another alias": lambda: s.update({"x": "y"}, join={"b": (a, "x = y")}),
    "update, another input": lambda: s.update({"x": "y"}, join={"a": (s, "x = y")}),
    "update, filtered": lambda: s.update({"x": "y"}, join={"a": (a.filter("x"), "x = y")}),
    "delete all": lambda: s.delete(),
    "delete": lambda: s.delete("x"),
    "delete else": lambda: s.delete("y"),
    "delete number": lambda: s.delete("x", seq=20),
    "add groups": lambda: s.aggregate(["x"], n="count(*)"),
    "add groups by two": lambda: s.aggregate(["x", "y"], n="count(*)"),
    "add groups, another name": lambda: s.aggregate(["x"], m="count(*)"),
    "add groups of some": lambda: s.aggregate(["x"], n="count(*)", where="y"),
    "append": lambda: s.append(a),
    "append itself": lambda: s.append(s),
    "append some": lambda: s.append(a, where="x"),
    "append groups": lambda: s.append(a, aggregate={"by": ["x"], "set": {"n": "count(*)"}}),
    "output": lambda: s.output("x"),
    "output elsewhere": lambda: s.output("y"),
    "output columns": lambda: s.output("x", columns=["x"]),
    "output format": lambda: s.output("x", format="csv"),
    "output deleted": lambda: s.output("x", include_deleted=True),
    "output registered": lambda: s.output("x", register_as="x"),
    "number later on": lambda: s.delete("x").delete("x", seq=21),
    "no number later on": lambda: s.delete("x").delete("x"),
    "number inside": lambda: s.append(a.delete("x", seq=11)),
    "no number inside": lambda: s.append(a.delete("x")),
}


def test_every_edit_of_a_plan_changes_it() -> None:
    hashes = {name: _hash(build()) for name, build in PLANS.items()}

    for one, other in combinations(PLANS, 2):
        assert hashes[one] != hashes[other], (one, other)


def test_a_number_that_a_step_has_anyway_does_not_change_it() -> None:
    plain = s.filter("x").delete("y").append(a.delete("z")).output("o")
    told = s.filter("x").delete("y", seq=20).append(a.delete("z", seq=10), seq=30).output("o")
    skipping = s.delete("x", seq=25).delete("y")

    assert _hash(told) == _hash(plain)
    assert _hash(s.delete("x", seq=25).delete("y", seq=30)) == _hash(skipping)
    assert _hash(s.delete("x", seq=15).delete("y")) != _hash(skipping)


def test_a_trace_counts_where_it_is_not_what_the_steps_call_for() -> None:
    changes, off = replace(ASSET, trace="changes"), replace(ASSET, trace="off")
    in_place = s.delete("x")

    assert _hash(asset=off) == _hash() != _hash(asset=changes)
    assert _hash(in_place, asset=changes) == _hash(in_place) != _hash(in_place, asset=off)


SETTINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "asset key": {"asset": replace(ASSET, key=("flight_date", "origin"))},
    "no key": {"asset": replace(ASSET, key=())},
    "days": {"asset": replace(ASSET, partitioned_by=daily("flight_date", "2025-01-01"))},
    "days of another column": {"asset": replace(ASSET, partitioned_by=daily("d", "2025-01-01"))},
    "strings": {"asset": replace(ASSET, partitioned_by=partitions("flight_date", ["x"]))},
    "digest": {"evidence": Evidence.DIGEST},
    "thresholds": {"thresholds": Thresholds(percentage=0.01)},
    "children": {"thresholds": Thresholds(children_percentage=0.01)},
    "groups": {"thresholds": Thresholds(groups_absolute=10)},
    "no thresholds": {"thresholds": None},
    "path": {"sources": SOURCES | {"segments": replace(SEGMENTS, path="data/other")}},
    "path of a reference": {"sources": SOURCES | {"airports": replace(AIRPORTS, path="x")}},
    "format": {"sources": SOURCES | {"segments": replace(SEGMENTS, format="csv")}},
    "source key": {"sources": SOURCES | {"segments": replace(SEGMENTS, key=())}},
    "options": {"sources": SOURCES | {"segments": replace(SEGMENTS, options={"mode": "y"})}},
    "no schema": {"sources": SOURCES | {"segments": replace(SEGMENTS, schema=None)}},
    "an asset instead": {"sources": {"segments": SEGMENTS}},
}


def test_every_edit_of_what_surrounds_a_plan_changes_it() -> None:
    hashes = {name: _hash(**changes) for name, changes in SETTINGS.items()}

    for one, other in combinations(SETTINGS, 2):
        assert hashes[one] != hashes[other], (one, other)


def test_what_does_not_change_results_does_not_change_it() -> None:
    more = SOURCES | {"unread": replace(AIRPORTS, name="unread")}
    by_day = replace(ASSET, partitioned_by=daily("flight_date", "2025-01-01"))
    later = replace(ASSET, partitioned_by=daily("flight_date", date(2024, 1, 1), "2026-01-01"))

    assert _hash(asset=replace(ASSET, tags=frozenset({"daily"}))) == _hash()
    assert _hash(sources=more) == _hash()
    assert _hash(evidence="keys") == _hash()
    assert _hash(asset=later) == _hash(asset=by_day)


def _schema(text: str) -> str:
    return _hash(s, sources={"segments": replace(SEGMENTS, schema=text)})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a int, b string", "a INT ,\n b STRING -- text"),
        ("a struct<B: int, c: map<string, int>>", "a Struct<B:INT,c:Map<String,Int>>"),
        ("a decimal(10,2) NOT NULL, b int", "a DECIMAL( 10, 2 ) not null, b int"),
    ],
)
def test_formatting_a_schema_does_not_change_it(one: str, other: str) -> None:
    assert _schema(one) == _schema(other)


def test_different_schemas_have_different_hashes() -> None:
    schemas = [
        *("a int, b string", "a int, B string", "b string, a int", "a int, b string, c int"),
        *("a int", "a bigint", "A int", "`a ` int", "string string", "STRING string", "a int a"),
        *("a decimal(10,2)", "a decimal(10,3)", "a decimal(10)", "a int NOT NULL"),
        *("a struct<b:int>", "a struct<B:int>", "a array<struct<b:int>>", "a array<struct<B:int>>"),
        *("a map<string,struct<b:int,c:int>>", "a map<string,struct<b:int,C:int>>"),
        *("a int COMMENT 'x'", "a int COMMENT 'X'", "a int, int int", "a int, INT int", ""),
    ]
    assert len({_schema(schema) for schema in schemas}) == len(schemas)


def test_a_text_that_may_be_the_name_of_an_odd_column_is_taken_as_written() -> None:
    odd = s.select("a", "b", "a + b").withColumn("a", "a + 1")
    quoted = {"segments": replace(SEGMENTS, schema="a int, b int, `(a + b)` int")}

    assert _hash(odd.select("(a + b)")) != _hash(odd.select("(a +  b)"))
    assert _hash(s.filter("(a + b)"), sources=quoted) != _hash(s.filter("(a+b)"), sources=quoted)
    assert _hash(s.withColumn("x y", "1").filter("a  b")) != _hash(
        s.withColumn("x y", "1").filter("a b")
    )
