"""Values and numbers of references that a table does not allow are refused before anything is
written; the error names row and rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tallyman as tm
from tallyman.domain.version.table import Table
from tallyman.errors import MutationRefused, UsageError
from tests.engine_tables.tables import Shelf

ITEM = Table.of(
    "item",
    "id int, kind string, price decimal(8,2), code string, since date, ok boolean",
    "id",
    rules={
        "kind": {"one_of": ["ink", "pen"]},
        "price": {"min": 0, "max": "99.99"},
        "code": {"pattern": "[A-Z]{2}[0-9]+"},
        "since": {"min": "2020-01-01"},
        "ok": {"one_of": [True]},
    },
)
ORDER = Table.of("orders", "id int", "id")
LINE = Table.of(
    "line",
    "id int, order_id int",
    "id",
    {"order_id": {"to": "orders.id", "at_least": 1, "at_most": 2}},
)
GOOD = {"kind": "ink", "price": "1.50", "code": "AB1", "since": "2024-02-29", "ok": True}


def insert(table: str, *rows: dict[str, object]) -> dict[str, object]:
    return {"insert": {"into": table, "rows": list(rows)}}


@pytest.mark.parametrize(
    ("value", "rule", "said"),
    [
        ({"kind": "cup"}, "kind", "row 2: kind = 'cup' is not one of ink, pen"),
        ({"price": "-0.01"}, "price", "row 2: price = -0.01 is not at least 0 and at most 99.99"),
        ({"price": 100}, "price", "row 2: price = 100.00 is not at least 0 and at most 99.99"),
        ({"code": "xAB1"}, "code", "row 2: code = 'xAB1' is not like [A-Z]{2}[0-9]+"),
        ({"since": "2019-12-31"}, "since", "row 2: since = 2019-12-31 is not at least 2020-01-01"),
        ({"ok": False}, "ok", "row 2: ok = False is not one of True"),
    ],
)
def test_a_value_that_breaks_a_rule_is_refused_with_its_row(
    tmp_path: Path, value: dict[str, object], rule: str, said: str
) -> None:
    shelf = Shelf(tmp_path, ITEM)
    with pytest.raises(MutationRefused) as refused:
        shelf.mutate(insert("item", {"id": 1, **GOOD}, {"id": 2, **GOOD, **value}))
    assert refused.value.samples == (said,)
    assert (refused.value.rule, refused.value.count) == (f"the rule of {rule}", 1)
    assert refused.value.statement == 1
    assert shelf.folders == []

    shelf.mutate(insert("item", {"id": 1, **GOOD}, {"id": 2}))  # NULL breaks no rule
    change = {"update": {"dataset": "item", "set": value, "where": "id = 1"}}
    with pytest.raises(MutationRefused, match="id = 1"):
        shelf.mutate(change)

    file = tmp_path / "more.jsonl"
    file.write_text(json.dumps({"id": 3, **GOOD}) + "\n" + json.dumps({"id": 4, **GOOD, **value}))
    for mode in ("append", "merge", "overwrite"):
        with pytest.raises(MutationRefused) as refused:
            shelf.load("item", file, mode)
        assert refused.value.samples == (said,)
    assert [row["id"] for row in shelf.rows("item")] == [1, 2]


def test_the_number_of_rows_that_refer_to_a_key_is_checked_when_all_changes_are_made(
    tmp_path: Path,
) -> None:
    shelf = Shelf(tmp_path, ORDER, LINE)
    with pytest.raises(MutationRefused, match="0 row") as refused:
        shelf.mutate(insert("orders", {"id": 1}))
    assert refused.value.samples == (
        "0 row(s) of line refer to orders.id = 1, not at least 1 and at most 2",
    )
    shelf.mutate(insert("orders", {"id": 1}), insert("line", {"id": 1, "order_id": 1}))
    shelf.mutate(insert("line", {"id": 2, "order_id": 1}, {"id": 3, "order_id": None}))
    with pytest.raises(MutationRefused, match="3 row"):
        shelf.mutate({"update": {"dataset": "line", "set": {"order_id": 1}, "where": "id = 3"}})
    with pytest.raises(MutationRefused, match="0 row"):
        shelf.mutate({"delete": {"from": "line", "where": "id < 3"}})
    file = tmp_path / "lines.jsonl"
    file.write_text('{"id": 9, "order_id": 1}\n')
    with pytest.raises(MutationRefused, match="3 row"):
        shelf.load("line", file, "append")
    shelf.load("line", file, "overwrite")
    assert shelf.rows("line") == [{"id": 9, "order_id": 1}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"rules": {"kidn": {"one_of": ["a"]}}},
            "'kidn', which is not a column; did you mean 'kind'",
        ),
        ({"rules": {"kind": {"oneof": ["a"]}}}, "unknown 'oneof'; did you mean 'one_of'?"),
        ({"rules": {"kind": {"one_of": []}}}, "expected a list of values"),
        ({"rules": {"kind": {}}}, "expected some of one_of, min, max, pattern"),
        ({"rules": {"n": {"min": "many"}}}, "min: 'many' is not int"),
        ({"rules": {"n": {"pattern": "x"}}}, "the column is int, not string"),
        ({"rules": {"kind": {"pattern": "("}}}, "is not a regular expression"),
        ({"rules": {"flag": {"max": True}}}, "values of type boolean have no order"),
        ({"references": {"n": {"to": "orders.id", "at_most": "few"}}}, "expected a whole number"),
        ({"references": {"n": {"to": "orders.id", "atmost": 1}}}, "not 'atmost'"),
        (
            {"references": {"n": {"to": "orders.id", "at_least": 3, "at_most": 2}}},
            "at_least 3 is more than at_most 2",
        ),
        ({"references": {"n": {"at_least": 1}}}, "write it as table.column"),
    ],
)
def test_a_rule_that_means_nothing_is_a_mistake_in_the_definition(
    given: dict[str, dict[str, object]], message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        tm.table("t", schema="k int, n int, kind string, flag boolean", key="k", **given)
    assert message in str(raised.value)
