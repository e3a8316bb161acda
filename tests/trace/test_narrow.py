"""Single promises of the trace, each an asset of one run."""
# ruff: noqa: E501 -- pipelines are written the way a user writes them

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.engine.conftest import Ran, Workshop
from tests.trace.recorded import Recorded
from tests.world.scale import FULL

ROWS = [
    {"id": f"r{n}", "v": n, "w": "xy"[n % 2], "region": ("NL", "BE")[n > 3], "ssn": ssn}
    for n, ssn in enumerate(["078-05-1120", None, "219-09-9999", "078-05-1120", "457-55-5462"], 1)
]
PIPELINE = """
SCHEMA = "id string, v int, w string, region string, ssn string"
rows = tm.source("rows", "data/rows.jsonl", schema=SCHEMA, key="id")
codes = tm.source("codes", "data/codes.jsonl", schema="code string, factor int")


def steps(frame, path):
    return (
        frame.update({"v": "v * 2"}, where="w = 'y'")
        .withColumn("v", "v + 1").delete("v = 5").withColumn("v", "v * 10")
        .aggregate(["w"], total="sum(v)").withColumnRenamed("region", "area").withColumn("ssn", "length(ssn)")
        .update({"total": "total + 1"}, where="id IS NULL").output(path, columns=["id", "total"])
    )


@tm.asset
def traced(rows):
    return steps(rows, "exports/on").output("exports/traced", include_deleted=True)

@tm.asset(trace="off")
def untraced(rows):
    return steps(rows, "exports/off").output("exports/untraced", include_deleted=True)

@tm.asset
def fans_out(rows, codes):
    return rows.update({"v": "0"}, where="id = 'r1'").update({"v": "c.factor"}, join={"c": (codes, "w = code")})

@tm.asset(partitioned_by=tm.partitions("region", ["NL", "BE"]))
def by_region(rows):
    return rows.update({"v": "-v"}).delete("id = 'r2'")

@tm.asset(trace="changes")
def grouped(rows):
    return rows.groupBy("w").agg(total="sum(v)").update({"total": "total + 1"}, where="w = 'x'")

@tm.asset(thresholds=dict(absolute=0, percentage=1))
def failing_twice(rows):
    return (
        rows.groupBy("w").agg(total="sum(v)").expect("no_x", "w <> 'x'")
        .output("exports/between").expect("no_y", "w <> 'y'")
    )

@tm.asset
def many_columns(rows):
    new = {f"c{n}": f"v + {n}" for n in range(70)}
    return rows.update(new, where="id <> 'r2'").delete("id = 'r3'")

@tm.asset
def secretive(rows):
    return (
        rows.update({"ssn": "concat(ssn, '0')"}, where="id <> 'r4'").aggregate(["ssn"], n="count(*)")
        .update({"SSN": "NULL"}, where="id = 'r3'")
    )
"""


@pytest.fixture(scope="module")
def ran(workshop: Callable[..., Workshop]) -> Ran:
    made = workshop(interpreted=not FULL).pipeline(PIPELINE).lines("rows.jsonl", ROWS)
    made.lines("codes.jsonl", [{"code": c, "factor": n} for n, c in enumerate("xyy")])
    with (made.home / "tallyman.yaml").open("a") as file:
        file.write("trace: {redact: [ssn]}\n")
    return made.run(partition=["NL", "BE"])


def trace(ran: Ran, asset: str) -> Recorded:
    assert ran.asset(asset).error is None, ran.asset(asset)
    return Recorded(ran[asset].folder / "trace")


def told(recorded: Recorded) -> list[tuple[int, str, str | None, Any]]:
    """Step, kind, id column of the row, and the new values of what changed."""
    ids = {row: after["id"] for row, (_, after) in recorded.baselines.items()}
    return sorted(
        (r.seq, r.kind, ids.get(r.row_id), r.after if r.kind == "updated" else None)
        for r in recorded.records
    )


def test_without_a_trace_the_rows_are_the_same(ran: Ran) -> None:
    assert not (ran["untraced"].folder / "trace").exists()
    rows = [
        sorted((r["id"] or "", r["v"] or 0, r["total"] or 0) for r in ran.rows(name))
        for name in ("traced", "untraced")
    ]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 6  # five, less one, and two totals
    shown = [_output(ran, name, "100_output") for name in ("traced", "untraced")]
    assert [{k: v for k, v in row.items() if k != "_row_id"} for row in shown[0]] == [
        {k: v for k, v in row.items() if k != "_row_id"} for row in shown[1]
    ]
    assert ran["traced"].fates == ran["untraced"].fates == {"PASS_THROUGH": 4, "FILTERED": 1}


def _output(ran: Ran, asset: str, step: str) -> list[dict[str, Any]]:
    place = ran[asset].folder / "outputs" / step
    rows = ran.project.spark.read.parquet(str(place)).orderBy("id", "w").collect()
    return [row.asDict() for row in rows]


def test_a_deleted_row_is_shown_as_it_was(ran: Ran) -> None:
    for asset in ("traced", "untraced"):
        [gone] = [row for row in _output(ran, asset, "100_output") if row["_deleted"]]
        shown = (gone["id"], gone["v"], gone["w"], gone["area"], gone["total"])
        assert shown == ("r4", 5, "x", "BE", None), asset
        assert gone["ssn"] is None  # the column has another type now


def test_more_changes_than_one_number_has_bits(ran: Ran) -> None:
    recorded = trace(ran, "many_columns")
    assert [segment.layout["words"] for segment in recorded.segments] == [2]
    found = {(step, kind, row): after for step, kind, row, after in told(recorded)}
    updated = {row for _, kind, row in found if kind == "updated"}
    assert updated == {"r1", "r3", "r4", "r5"}
    assert found[10, "updated", "r1"] == {f"c{n}": 1 + n for n in range(70)}
    assert [key for key in found if key[1] == "deleted"] == [(20, "deleted", "r3")]


def test_groups_that_fail_in_two_segments_are_no_evidence_of_rows(ran: Ran) -> None:
    assert ran["failing_twice"].fates == {"ERROR": 5}
    place = ran["failing_twice"].folder / "adjoint" / "reverse_joins"
    files = [path for path in place.rglob("*.parquet") if path.is_file()]
    assert sum(pq.read_metadata(file).num_rows for file in files) == 0


def test_a_lookup_that_meets_several_rows_fails_the_step(ran: Ran) -> None:
    error = ran.asset("fans_out").error
    assert error is not None
    assert error["code"] == "join_fan_out"
    assert "20_update" in str(error["message"])
    assert not (ran["fans_out"].folder / "output").exists()
    assert not (ran["fans_out"].folder / "trace").exists(), "it fails before the first step"


def test_each_partition_has_a_trace_of_its_own(ran: Ran) -> None:
    found = {
        part: Recorded(ran["by_region"].folder / f"region={part}" / "trace")
        for part in ("NL", "BE")
    }
    assert {p: len(r.baselines) for p, r in found.items()} == {"NL": 3, "BE": 2}
    assert [r.head["partition"] for r in found.values()] == ["NL", "BE"]
    assert [t for t in told(found["NL"]) if t[0] == 20] == [(20, "deleted", "r2", None)]
    ids = [{r.row_id for r in recorded.records} for recorded in found.values()]
    assert not ids[0] & ids[1]


def test_groups_are_the_rows_of_what_follows_them(ran: Ran) -> None:
    recorded = trace(ran, "grouped")
    assert [(r.seq, r.kind, r.before, r.after) for r in recorded.records] == [
        (20, "updated", {"total": 6}, {"total": 7})
    ]
    assert [after for _, after in recorded.baselines.values()] == [{"w": "x", "total": 6}]


# ---- redaction -----------------------------------------------------------------------------


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _texts(part)


def test_a_redacted_value_is_in_no_file_of_a_trace(ran: Ran) -> None:
    home = ran.project.settings.home / ran.result.folder
    secrets = [row["ssn"] for row in ROWS if row["ssn"]]
    files = 0
    for folder in home.rglob("trace"):
        recorded = Recorded(folder)
        for seq in recorded.complete:
            for kind in ("updated", "deleted", "created", "baseline"):
                for table in recorded.tables(seq, kind):
                    files += 1
                    shown = "\n".join(_texts(table.to_pylist()))
                    assert not any(secret in shown for secret in secrets), (folder, seq, kind)
    assert files > 10


def test_equal_values_have_equal_hashes_and_null_stays_null(ran: Ran) -> None:
    recorded = trace(ran, "secretive")
    assert recorded.head["redacted"] == ["ssn"]
    before = {after["id"]: after["ssn"] for _, after in recorded.baselines.values()}
    # r2 and r4 were never touched: NULL || '0' is NULL.
    assert before.keys() == {"r1", "r3", "r5"}
    assert all(re.fullmatch(r"redacted:[0-9a-f]{32}", text) for text in before.values())
    assert len(set(before.values())) == 3
    changed = {r.row_id: r for r in recorded.records if r.seq == 10}
    assert {r.before["ssn"] for r in changed.values() if r.before} == set(before.values())
    made = {
        r.after["ssn"]: r.after["n"] for r in recorded.records if r.kind == "created" and r.after
    }
    assert made[None] == 1
    assert {r.after["ssn"] for r in changed.values() if r.after} < made.keys()
    [cleared] = [r for r in recorded.records if r.seq == 30]
    assert cleared.after == {"ssn": None}
    first = trace(ran, "traced")
    same = {after["id"]: after["ssn"] for _, after in first.baselines.values()}
    assert same["r1"] == before["r1"]
    assert same["r2"] is None
