"""Column lineage of every kind of step, and of whole pipelines: never too little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyman.domain.definition.column_lineage import DIRECT, Way
from tallyman.domain.definition.frame import Frame
from tallyman.engine.columns.lineage import column_lineage, registered_lineage
from tests.lineage_events.plans import airline, columns_of, shown

INPUTS = {"t": ["id", "a", "b", "s", "list"], "r": ["code", "name"], "u": ["id", "a", "x"]}
T, R, U = Frame("t"), Frame("r"), Frame("u")
ALL = {"t.id", "t.a", "t.b", "t.s", "t.list"}


def lineage(frame: Frame) -> tuple[dict[str, set[str]], set[str]]:
    return shown(column_lineage(frame, INPUTS))


def each(way: str, *columns: str) -> set[str]:
    return {f"{column} {way}" for column in columns}


SAME = {name: each("IDENTITY", f"t.{name}") for name in INPUTS["t"]}
EXPRESSIONS = [
    ("a", {"t.a IDENTITY"}),
    ("A", {"t.a IDENTITY"}),
    ("(a)", {"t.a IDENTITY"}),
    ("`a`", {"t.a IDENTITY"}),
    ("a + b", {"t.a TRANSFORMATION", "t.b TRANSFORMATION"}),
    ("cast(a AS int)", {"t.a TRANSFORMATION"}),
    ("s.field", {"t.s TRANSFORMATION"}),
    ("list[0].name", {"t.list TRANSFORMATION"}),
    ("1", set()),
    ("'a'", set()),
    (
        "CASE WHEN a > 1 THEN b ELSE s END",
        {"t.a CONDITIONAL", *each("TRANSFORMATION", "t.b", "t.s")},
    ),
    ("CASE a WHEN 1 THEN b END", {"t.a CONDITIONAL", "t.b TRANSFORMATION"}),
    ("if(a IS NULL, b, 0)", {"t.a CONDITIONAL", "t.b TRANSFORMATION"}),
    ("coalesce(a, b)", {"t.a CONDITIONAL", *each("TRANSFORMATION", "t.a", "t.b")}),
    ("nullif(a, b)", {"t.a TRANSFORMATION", *each("CONDITIONAL", "t.a", "t.b")}),
    (
        "sum(a) OVER (PARTITION BY b ORDER BY s)",
        {"t.a AGGREGATION", "t.b WINDOW", "t.s WINDOW"},
    ),
    ("row_number() OVER (ORDER BY a)", {"t.a WINDOW"}),
    ("transform(list, x -> x + a)", each("TRANSFORMATION", "t.list", "t.a")),
    ("transform(list, a -> a + 1)", {"t.list TRANSFORMATION"}),
    ("struct(*)", each("TRANSFORMATION", *ALL)),
    ("date'2024-01-01' > a", {"t.a TRANSFORMATION"}),
    # What cannot be parsed means every column whose name stands in it.
    ("a !!! b", each("TRANSFORMATION", "t.a", "t.b")),
    ("(SELECT max(a) FROM t)", {"t.a TRANSFORMATION"}),
]


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS)
def test_an_expression_tells_how_each_column_gets_into_it(text: str, expected: set[str]) -> None:
    columns, rows = lineage(T.withColumn("new", text))
    assert columns == {**SAME, "new": expected}
    assert rows == set()


def test_a_column_named_like_a_function_without_brackets_is_found() -> None:
    inputs = {"t": ["current_date", "date", "count"]}
    found = column_lineage(Frame("t").withColumn("x", "current_date"), inputs)
    assert shown(found)[0]["x"] == {"t.current_date IDENTITY"}
    found = column_lineage(Frame("t").withColumn("x", "current_date + 1"), inputs)
    assert shown(found)[0]["x"] == {"t.current_date TRANSFORMATION"}
    found = column_lineage(Frame("t").withColumn("x", "cast(count(*) AS date)"), inputs)
    assert shown(found)[0]["x"] == set()


FLOWING = [
    (
        "select",
        T.select("b AS renamed", "a", "a + b AS total"),
        {
            "renamed": {"t.b IDENTITY"},
            "a": {"t.a IDENTITY"},
            "total": each("TRANSFORMATION", "t.a", "t.b"),
        },
        set(),
    ),
    ("select star", T.select("*", "a AS again"), {**SAME, "again": {"t.a IDENTITY"}}, set()),
    ("drop", T.drop("B", "s", "list"), {"id": SAME["id"], "a": SAME["a"]}, set()),
    (
        "rename",
        T.select("a").withColumnRenamed("A", "z").withColumn("y", "z * 2"),
        {"z": {"t.a IDENTITY"}, "y": {"t.a TRANSFORMATION"}},
        set(),
    ),
    (
        "withColumns sees what was before",
        T.select("a", "b").withColumns({"a": "b", "b": "a"}),
        {"a": {"t.b IDENTITY"}, "b": {"t.a IDENTITY"}},
        set(),
    ),
    (
        "filter",
        T.select("a", "b").filter("b > 1"),
        {"a": SAME["a"], "b": SAME["b"]},
        {"t.b FILTER"},
    ),
    ("expect", T.select("a").expect("rule", "a > 1"), {"a": SAME["a"]}, {"t.a FILTER"}),
    (
        "filter on what was made",
        T.select("a + b AS c").filter("c > 1"),
        {"c": each("TRANSFORMATION", "t.a", "t.b")},
        each("FILTER", "t.a", "t.b"),
    ),
    (
        "join",
        T.select("id", "a").join(R.filter("name != ''"), "a = code"),
        {
            "id": SAME["id"],
            "a": SAME["a"],
            "code": {"r.code IDENTITY"},
            "name": {"r.name IDENTITY"},
        },
        {"t.a JOIN", "r.code JOIN", "r.name FILTER"},
    ),
    (
        "join by name",
        T.select("a", "id").join(U, "id", how="left"),
        {
            "id": {"t.id IDENTITY"},
            "a": {"t.a IDENTITY", "u.a IDENTITY"},
            "x": {"u.x IDENTITY"},
        },
        {"t.id JOIN", "u.id JOIN"},
    ),
    (
        "groupBy",
        T.groupBy("b").agg(n="count(*)", total="sum(a)", big="max(CASE WHEN s THEN a END)"),
        {
            "b": {"t.b IDENTITY"},
            "n": set(),
            "total": {"t.a AGGREGATION"},
            "big": {"t.a AGGREGATION", "t.s CONDITIONAL"},
        },
        {"t.b GROUP_BY"},
    ),
    (
        "an aggregate with its own filter",
        T.groupBy("b").agg(n="sum(a) FILTER (WHERE id > 1)"),
        {"b": {"t.b IDENTITY"}, "n": {"t.a AGGREGATION", "t.id CONDITIONAL"}},
        {"t.b GROUP_BY"},
    ),
    (
        "explode",
        T.select("id", "list").explode("list", "one"),
        {"id": SAME["id"], "list": SAME["list"], "one": {"t.list TRANSFORMATION"}},
        {"t.list FILTER"},
    ),
    (
        "union by position",
        T.select("id", "a").union(U.filter("x = 1").select("x", "id")),
        {"id": {"t.id IDENTITY", "u.x IDENTITY"}, "a": {"t.a IDENTITY", "u.id IDENTITY"}},
        {"u.x FILTER"},
    ),
    (
        "union by name",
        T.select("id", "a").unionByName(U.select("A", "ID")),
        {"id": {"t.id IDENTITY", "u.id IDENTITY"}, "a": {"t.a IDENTITY", "u.a IDENTITY"}},
        set(),
    ),
    (
        "dropDuplicates",
        T.select("id", "a").dropDuplicates(["a"]),
        {"id": SAME["id"], "a": SAME["a"]},
        {"t.a GROUP_BY"},
    ),
    (
        "dropDuplicates of all",
        T.select("id", "a").dropDuplicates(),
        {"id": SAME["id"], "a": SAME["a"]},
        each("GROUP_BY", "t.id", "t.a"),
    ),
    (
        "update in order",
        T.select("a", "b").update({"a": "b + 1", "c": "a"}),
        {"a": {"t.b TRANSFORMATION"}, "b": SAME["b"], "c": {"t.b TRANSFORMATION"}},
        set(),
    ),
    (
        "update where",
        T.select("id", "a").update({"A": "0"}, where="id > 1"),
        {"id": SAME["id"], "a": {"t.a IDENTITY", "t.id CONDITIONAL"}},
        set(),
    ),
    (
        "update with a lookup",
        T.select("a", "b").update(
            {"b": "ref.name"}, join={"ref": (R.filter("name <> ''"), "a = ref.code")}
        ),
        {
            "a": SAME["a"],
            "b": {"r.name IDENTITY", "t.a JOIN", "r.code JOIN", "r.name FILTER"},
        },
        set(),
    ),
    (
        "update with a whole row",
        T.select("a").update({"all": "ref"}, join={"ref": (R, "a = code")}),
        {
            "a": SAME["a"],
            "all": {*each("TRANSFORMATION", "r.code", "r.name"), "t.a JOIN", "r.code JOIN"},
        },
        set(),
    ),
    ("delete", T.select("a").delete("a > 1"), {"a": SAME["a"]}, {"t.a FILTER"}),
    ("delete all", T.select("a").delete(), {"a": SAME["a"]}, set()),
    (
        "aggregate",
        T.select("id", "a", "b").aggregate(["b"], where="id > 0", a="sum(a)", n="count(*)"),
        {
            "id": SAME["id"],
            "a": {"t.a IDENTITY", "t.a AGGREGATION"},
            "b": SAME["b"],
            "n": set(),
        },
        {"t.b GROUP_BY", "t.id FILTER"},
    ),
    (
        "append",
        T.select("id", "a").append(U.select("ID"), where="id > 1"),
        {"id": {"t.id IDENTITY", "u.id IDENTITY"}, "a": SAME["a"]},
        {"u.id FILTER"},
    ),
    ("output", T.select("a").output("out.csv"), {"a": SAME["a"]}, set()),
]


@pytest.mark.parametrize(
    ("frame", "columns", "rows"), [f[1:] for f in FLOWING], ids=[f[0] for f in FLOWING]
)
def test_each_step_leads_columns_on(
    frame: Frame, columns: dict[str, set[str]], rows: set[str]
) -> None:
    assert lineage(frame) == (columns, rows)


def test_names_that_only_spark_knows_lead_to_everything_that_may_be_meant() -> None:
    unnamed = T.select("a + b", "s.*", "id")
    found = shown(column_lineage(unnamed.withColumn("x", "inner_field"), INPUTS))[0]
    assert found["x"] == each("TRANSFORMATION", "t.a", "t.b", "t.s", "t.id")
    named = ["(a + b)", "one", "two", "id"]
    told = shown(column_lineage(unnamed, INPUTS, named))[0]
    assert list(told) == named
    assert told["id"] == {"t.id IDENTITY"}
    assert told["one"] == each("TRANSFORMATION", "t.a", "t.b", "t.s", "t.id")
    by_place = shown(column_lineage(T.select("a + b", "id"), INPUTS, ["(a + b)", "id"]))[0]
    assert by_place["(a + b)"] == each("TRANSFORMATION", "t.a", "t.b")


def test_what_an_output_registers_has_a_lineage_of_its_own() -> None:
    plan = (
        T.select("id", "a")
        .output("x", register_as="before", columns=["a", "_row_id"])
        .update({"a": "0"})
        .output("y", register_as="behind")
    )
    found = {name: shown(one)[0] for name, one in registered_lineage(plan, INPUTS).items()}
    assert found == {"before": {"a": {"t.a IDENTITY"}}, "behind": {"id": SAME["id"], "a": set()}}


NAMES = st.sampled_from(INPUTS["t"])


@given(first=NAMES, second=NAMES, kept=st.booleans())
def test_ways_add_up_along_the_plan(first: str, second: str, kept: bool) -> None:
    value = first if kept else f"upper({first})"
    plan = T.withColumn("x", value).groupBy(second).agg(y="max(x)").withColumn("z", "y")
    found = column_lineage(plan, INPUTS)
    assert [(o.column, o.way) for o in found.columns["z"]] == [(first, Way.AGGREGATION)]
    assert [(o.column, o.way) for o in found.rows] == [(second, Way.GROUP_BY)]


@given(*(st.sampled_from(list(Way)) for _ in range(3)))
def test_ways_can_be_put_together_in_any_order(one: Way, two: Way, three: Way) -> None:
    assert one.then(two).then(three) is one.then(two.then(three))
    assert one.then(two).direct == (one in DIRECT and two in DIRECT)


# ---- whole pipelines ----------------------------------------------------------------------------


def test_the_airline_example() -> None:
    pipeline = airline()
    plan = pipeline.assets["daily_revenue"].plan()
    columns, rows = shown(column_lineage(plan, columns_of(pipeline)))
    assert columns == {
        "flight_date": {"segments.flight_date IDENTITY"},
        "total_revenue": {"segments.ticket_price AGGREGATION"},
        "segments": set(),
    }
    assert rows == {
        *each("FILTER", "segments.ticket_price", "segments.distance_km", "segments.status"),
        *each("JOIN", "segments.airline", "airlines.code"),
        "segments.flight_date GROUP_BY",
    }
