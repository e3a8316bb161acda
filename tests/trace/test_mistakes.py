"""Mistakes in the steps of a working set are told before any data is read, all at once."""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

from __future__ import annotations

from collections.abc import Callable

import pytest

from tallyman.errors import DefinitionError
from tests.engine.conftest import Workshop
from tests.world.scale import FULL

WRONG = """
rows = tm.source("rows", "data/none", schema="id string, v int, w string", key="id")
own = tm.source("own", "data/none", schema="id string, _deleted boolean", key="id")
codes = tm.source("codes", "data/none", schema="code string, factor int, extra string")

@tm.asset
def reserved(rows):
    return rows.update({"_row_id": "'x'"})

@tm.asset
def reserved_too(rows):
    return rows.aggregate(["w"], _updated_at="max(v)")

@tm.asset
def taken(own):
    return own.update({"id": "'x'"})

@tm.asset
def combined(rows):
    return rows.update({"v": "1"}).groupBy("w").agg(n="count(*)")

@tm.asset
def windowed(rows):
    return rows.update({"v": "count(*) OVER (PARTITION BY w)"}).withColumn("nth", "row_number() OVER (ORDER BY v)")

@tm.asset
def brought(rows, codes):
    return rows.append(codes).append(rows.update({"v": "1"}))

@tm.asset
def numbered(rows):
    return rows.update({"v": "1"}, seq=20).delete("v = 2", seq=20)

@tm.asset
def zeroth(rows):
    return rows.update({"v": "1"}, seq=0)

@tm.asset
def unknown(rows, codes):
    return (
        rows.update({"v": "vv + 1"}).update({"v": "1"}, where="ww = 'x'").delete("idd = 'x'")
        .aggregate(["ww"], n="count(*)").aggregate(["w"], n="sum(vv)", where="vv > 1")
        .update({"v": "c.factors"}, join={"c": (codes, "w = code")})
        .update({"v": "c.factor"}, join={"c": (codes, "w = cod")})
        .output("exports/x", columns=["idd"])
    )

@tm.asset
def no_condition(rows):
    return rows.delete("v").update({"v": "1"}, where="v + 1")

@tm.asset
def alias(rows, codes):
    return rows.update({"v": "v.factor"}, join={"v": (codes, "w = code")})

@tm.asset
def away(rows):
    return rows.output("../outside.csv")

@tm.asset
def both(rows):
    return rows.aggregate(["w"], w="max(w)").output("exports/x.csv", format="parquet")

@tm.asset
def registered(rows):
    return rows.output("exports/y", register_as="No Name")

@tm.asset(trace="changes")
def nothing(rows):
    return rows.groupBy("w").agg(n="count(*)")
"""
SAID = {
    "reserved, step 10_update": ["column '_row_id' is reserved"],
    "reserved_too, step 10_aggregate": ["column '_updated_at' is reserved"],
    "taken, step 10_update": ["column '_deleted' is reserved"],
    "combined": ["groupBy after update: the rows would no longer be those that were changed"],
    "windowed": ["'count(*) OVER (PARTITION BY w)' looks at other rows", "'row_number() OVER"],
    "brought, step 10_append": [
        "columns that do not exist: code, factor, extra; the columns are id, v, w"
    ],
    "brought": ["update inside append: only the asset's own rows change"],
    "numbered": ["seq 20 comes after seq 20: numbers must rise along the chain"],
    "zeroth": ["seq 0: the number of a step must be 1 or more"],
    "unknown, step 10_update": ["'vv'"],
    "unknown, step 20_update": ["'ww'"],
    "unknown, step 30_delete": ["'idd'"],
    "unknown, step 40_aggregate": ["'ww'"],
    "unknown, step 50_aggregate": ["'vv'"],
    "unknown, step 60_update": ["factors"],
    "unknown, step 70_update": ["'cod'"],
    "unknown, step 80_output": ["unknown column 'idd'"],
    "no_condition, step 10_delete": ["where gives int, not true or false: 'v'"],
    "no_condition, step 20_update": ["where gives int, not true or false: 'v + 1'"],
    "alias, step 10_update": ["join 'v' has the name of a column; give it another name"],
    "away": ["output to '../outside.csv': use a path in the project"],
    "both": ["output to 'exports/x.csv' in format 'parquet': the name means 'csv'"],
    "registered, step 10_output": ["register_as 'No Name' is not a name for a dataset"],
    "nothing": ['trace="changes": no step follows the last one that combines rows'],
}


@pytest.fixture(scope="module")
def told(workshop: Callable[..., Workshop]) -> dict[str, list[str]]:
    made = workshop(interpreted=not FULL).pipeline(WRONG)
    with pytest.raises(DefinitionError) as caught:
        made.run()
    assert not (made.home / "runs").exists()
    found: dict[str, list[str]] = {}
    for problem in caught.value.problems:
        found.setdefault(problem.where.removeprefix("asset "), []).append(problem.message)
    return found


@pytest.mark.parametrize("where", SAID)
def test_a_mistake_is_told_where_it_stands(told: dict[str, list[str]], where: str) -> None:
    for words in SAID[where]:
        assert any(words in message for message in told.get(where, [])), (words, told)


def test_nothing_else_is_said(told: dict[str, list[str]]) -> None:
    assert told.keys() == SAID.keys()
    assert {where: len(said) for where, said in told.items()} == {
        where: len(words) for where, words in SAID.items()
    }
