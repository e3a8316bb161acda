"""Which plans can be given a few records alone: those whose rows depend on no other record."""

from __future__ import annotations

import pytest

from tallyman.domain.definition.frame import Frame
from tallyman.engine.source.corrections import treats_each_by_itself

A, B = Frame("a"), Frame("b")
ALONE = {
    "steps on a row": A.expect("p", "n > 0").filter("n < 9").withColumn("m", "n * 2").drop("n"),
    "a lookup": A.join(B, "k", unmatched="error"),
    "a lookup in a summary": A.join(B.groupBy("k").agg(n="count(*)"), "k", unmatched="error"),
    "two inputs": A.select("k").union(B.expect("p", "k > 0").select("k")),
    "children of a record": A.expect("p", "n > 0").explode("list").filter("list > 0"),
}
TOGETHER = {
    "groups": A.groupBy("k").agg(n="count(*)"),
    "first of each": A.dropDuplicates(["k"]),
    "a window": A.withColumn("rank", "row_number() OVER (PARTITION BY k ORDER BY n)"),
    "a window in select": A.select("k", "sum(n) over (partition by k) AS total"),
    "one input twice": A.filter("n > 0").union(A.filter("n < 0")),
    "looked up in itself": A.join(A.groupBy("k").agg(n="count(*)"), "k", unmatched="error"),
    "groups in a union": B.select("k").union(A.groupBy("k").agg(n="count(*)").select("k")),
    "children that can fail": A.explode("list").expect("p", "list > 0"),
    "matches that can fail": A.join(B, "k", unmatched="error", fanout="expand").expect(
        "p", "n > 0"
    ),
    "rows changed in place": A.update(set={"n": "n + 1"}),
}


@pytest.mark.parametrize("name", ALONE)
def test_each_record_by_itself(name: str) -> None:
    assert treats_each_by_itself(ALONE[name])


@pytest.mark.parametrize("name", TOGETHER)
def test_all_records_together(name: str) -> None:
    assert not treats_each_by_itself(TOGETHER[name])
