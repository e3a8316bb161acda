"""The general-ledger close with every number of `spec/trace.md`, as its files tell it."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.trace.conftest import Closed
from tests.trace.general_ledger import (
    BASELINES,
    BUDGETED,
    LINES,
    RECORDS,
    SUMMARIES,
    name_of,
)
from tests.trace.recorded import Recorded, exact, row_id
from tests.world.home import Home


def names_in(recorded: Recorded) -> dict[str, str]:
    """Row ids by what the scenario calls the rows; the budgets share accounts with lines."""
    found = {row: name_of(after) for row, (_, after) in recorded.baselines.items()}
    return found | {
        r.row_id: name_of(r.after or {}) for r in recorded.records if r.kind == "created"
    }


def records_in(recorded: Recorded) -> dict[int, dict[str, Any]]:
    """By step and row: kind, before, after, with exact types."""
    names = names_in(recorded)
    found: dict[int, dict[str, Any]] = {seq: {} for seq in recorded.complete}
    for r in recorded.records:
        assert names[r.row_id] not in found[r.seq], "two records of a row at one step"
        found[r.seq][names[r.row_id]] = (r.kind, exact(r.before), exact(r.after))
    return found


def expected(until: int = 80) -> dict[int, dict[str, Any]]:
    return {
        seq: {row: (kind, exact(old), exact(new)) for row, (kind, old, new) in rows.items()}
        for seq, rows in RECORDS.items()
        if seq <= until
    }


def all_rows(closed: Closed) -> list[dict[str, Any]]:
    """The output that shows deleted rows too."""
    [file] = (closed.folder / "outputs" / "80_output").glob("*.parquet")
    return pq.ParquetFile(file).read().to_pylist()


def test_every_step_recorded_what_it_changed(closed: Closed) -> None:
    recorded = closed.recorded
    assert records_in(recorded) == expected()
    assert Counter(r.kind for r in recorded.records) == {"updated": 15, "deleted": 2, "created": 7}


def test_only_rows_that_were_touched_have_a_baseline(closed: Closed) -> None:
    found = {
        name_of(after): (seq, exact(after)) for seq, after in closed.recorded.baselines.values()
    }
    assert found == {row: (seq, exact(after)) for row, (seq, after) in BASELINES.items()}


def test_values_are_stored_in_the_types_of_their_columns(closed: Closed) -> None:
    [table] = {t.schema for t in closed.recorded.tables(10, "updated")}
    assert table.field("after").type == pa.struct([("amount_reporting", pa.decimal128(18, 2))])
    [made] = {t.schema for t in closed.recorded.tables(40, "created")}
    assert made.field("after").type.field("total_reporting").type == pa.decimal128(28, 2)
    assert made.field("after").type.field("line").type == pa.int32()


def test_each_touched_row_is_in_the_files_of_a_segment_once(closed: Closed) -> None:
    """One folder for each step; the first one of a segment has the files of all its steps."""
    recorded = closed.recorded
    files = sorted(recorded.folder.rglob("*.parquet"))
    assert {f.parent.name for f in files} == {f"operation_seq={n}" for n in (10, 40, 50, 60)}
    for segment in recorded.segments:
        ids = [segment.id_of(row) for row in segment.rows]
        assert ids, segment.files
        assert len(ids) == len(set(ids)), segment.files
    rows = {
        file.parent.name: sum(pq.read_metadata(f).num_rows for f in file.parent.glob("*.parquet"))
        for file in files
    }
    assert list(rows.values()) == [7, 4, 3, 3]


def test_the_rows_are_fifteen_and_seventeen_with_those_deleted(closed: Closed) -> None:
    rows = all_rows(closed)
    assert (closed.home.path / "exports" / "gl.csv").exists()  # of this run, or of a later one
    [kept] = (closed.folder / "outputs" / "70_output").glob("*.csv")
    with kept.open() as file:
        live = list(csv.DictReader(file))
    assert (len(rows), len(live), closed.said["assets"][0]["rows_out"]) == (17, 15, 15)
    assert sum(Decimal(row["amount_local"] or 0) for row in live) == Decimal("5393325.00")
    assert {name_of(row) for row in rows if row["_deleted"]} == {"JE-002/2", "JE-004/2"}
    assert Counter(row["_row_id"] for row in rows if not row["_deleted"]) == Counter(
        row["_row_id"] for row in live
    )


def test_rows_carry_their_id_and_the_time_of_the_run_when_changed(closed: Closed) -> None:
    recorded = closed.recorded
    started = datetime.fromisoformat(recorded.head["timestamp"])
    names, rows = names_in(recorded), all_rows(closed)
    touched = {names[r.row_id] for r in recorded.records if r.kind != "created"}
    assert {row["_updated_at"] for row in rows} == {None, started.astimezone(UTC)}
    assert {name_of(row) for row in rows if row["_updated_at"]} == touched
    mine = {row["_row_id"]: name_of(row) for row in rows}
    assert names.items() <= mine.items()
    assert len(mine.keys() - names.keys()) == 3  # JE-001/1, JE-001/2, JE-004/1: read, not touched


def test_replaying_the_trace_gives_the_rows_of_the_output(closed: Closed) -> None:
    rows = {row["_row_id"]: row for row in all_rows(closed)}
    for identity, state in closed.recorded.replayed().items():
        assert {n: rows[identity][n] for n in state} == state
    at_20 = {name: s for n, s in closed.recorded.replayed(20).items() if (name := name_of(s))}
    assert at_20["JE-002/2"]["amount_local"] == Decimal("-8925.00")
    assert at_20["JE-004/2"] == LINES["JE-004/2"] | {"_deleted": False}


def test_the_ledger_tells_records_and_added_rows_apart(closed: Closed) -> None:
    [asset] = closed.said["assets"]
    assert asset["records_in"] == 14
    assert {fate: n for fate, n in asset["fates"].items() if n} == {
        "PASSED": 8,
        "AGGREGATED": 3,
        "FILTERED": 3,
    }
    ledger = json.loads((closed.folder / "ledger.json").read_text())
    assert [(s["opened_by"], s["units_in"], s["unaccounted"]) for s in ledger["sub_ledgers"]] == [
        ("40_aggregate", 4, 0),
        ("50_append.20_groupBy", 3, 0),
    ]
    verified = closed.home.ok("verify", closed.said["run_id"], "--exact")
    assert verified["balanced"], verified


def ids_of(recorded: Recorded) -> dict[str, str]:
    """The same as `names_in`, worked out from the run, the step and the key alone."""
    [moment] = {int(row.replace("-", "")[:12], 16) for row in names_in(recorded)}
    started = datetime.fromisoformat(recorded.head["timestamp"]).timestamp()
    assert started <= moment / 1000 < started + 1

    def key(**columns: object) -> str:
        return json.dumps(columns, separators=(",", ":"))

    made = {row_id(recorded.head, moment, 40, key(currency=c)): c for c in SUMMARIES}
    for account, row in BUDGETED.items():
        of_group = key(**{n: row[n] for n in ("account", "cost_center", "currency")})
        made[row_id(recorded.head, moment, 50, of_group)] = account
    for name in BASELINES:
        line = key(journal_id=LINES[name]["journal_id"], line=LINES[name]["line"])
        made[row_id(recorded.head, moment, 0, line)] = name
    return made


def test_ids_follow_from_the_run_the_step_and_the_row(closed: Closed) -> None:
    assert ids_of(closed.recorded) == names_in(closed.recorded)


def test_the_command_tells_the_history_of_a_row(closed: Closed) -> None:
    said = closed.home.ok("trace", closed.said["run_id"], "--key", "journal_id=JE-002,line=2")
    assert [entry["operation_seq"] for entry in said["history"]] == [10, 20, 30]
    step = ("--asset", "gl_close", "--step", "30")
    assert len(closed.home.ok("trace", closed.said["run_id"], *step)["changes"]) == 2


@pytest.fixture(scope="module")
def written(ledger_home: Callable[[str], Home]) -> Closed:
    """The same close in YAML."""
    home = ledger_home("yaml")
    return Closed(home, home.ok("run"))


def test_both_forms_are_one_definition_with_one_trace(closed: Closed, written: Closed) -> None:
    hashes = []
    for each in (closed, written):
        manifest = json.loads((each.folder.parent / "manifest.json").read_text())
        hashes.append([target["definition_hash"] for target in manifest["targets"]])
    assert hashes[0] == hashes[1]
    assert records_in(written.recorded) == records_in(closed.recorded)
    assert written.recorded.steps == closed.recorded.steps
    assert written.said["assets"][0]["fates"] == closed.said["assets"][0]["fates"]
