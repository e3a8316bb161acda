"""Random steps on random rows: the trace tells every change and no other, and rebuilds every row.

Each chain is one asset of one run. What it must have recorded is worked out in plain Spark, state
by state. TALLYMAN_SEED picks other chains; the seed and the chain are in every failure.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.engine.conftest import Ran, Workshop
from tests.trace.plain_steps import RID
from tests.trace.random_rows import ADDED, MORE, REFERENCE, REFERENCES, SCHEMA, rows_of
from tests.trace.random_steps import Steps
from tests.trace.recorded import Record, Recorded, State, exact, exact_row, moved
from tests.world.scale import FULL, TURN, some

SEED = int(os.environ.get("TALLYMAN_SEED", "20260201"))
ASKED = os.environ.get("TALLYMAN_CHAINS")
CHAINS = int(ASKED or 6)
ROWS = rows_of(random.Random(SEED), 30)
CHAIN = {
    f"chain_{number}": Steps(f"chain_{number}", random.Random(SEED * 1000 + number)).grown()
    for number in some(range(CHAINS), CHAINS if ASKED else 3)
}


@pytest.fixture(scope="module")
def ran(workshop: Callable[..., Workshop], spark: SparkSession) -> Ran:
    made = workshop(interpreted=not FULL)
    for name, table in _tables(spark).items():
        made.parquet(name, table)
    sources = [("src", "id"), ("ref", None), ("more", "pid")]
    declared = [f'tm.source("{n}", "data/{n}", "parquet", key={key!r})\n' for n, key in sources]
    return made.pipeline("".join(declared) + "".join(map(str, CHAIN.values()))).run()


def _tables(spark: SparkSession) -> dict[str, DataFrame]:
    given: list[tuple[str, Sequence[tuple[Any, ...]], str]] = [
        *(("src", ROWS, SCHEMA), ("ref", REFERENCES, REFERENCE), ("more", ADDED, MORE))
    ]
    return {name: spark.createDataFrame(rows, schema) for name, rows, schema in given}


@dataclass(frozen=True)
class Behind:
    """All rows behind one step, by what they are, and what the step did to them."""

    rows: dict[str, State]
    changes: dict[str, tuple[str, dict[str, tuple[Any, Any]]]]
    schema: list[tuple[str, str]]


@dataclass(frozen=True)
class Model:
    """Plain Spark, step by step."""

    loaded: dict[str, State]
    behind: dict[int, Behind]

    @classmethod
    def of(cls, spark: SparkSession, chain: Steps, recorded: Recorded) -> Model:
        tables = _tables(spark)
        rows = tables["src"].selectExpr("*", f"id AS {RID}")
        loaded = states = _states(rows.toArrow())
        behind: dict[int, Behind] = {}
        for planned, step in zip(chain.planned, recorded.steps, strict=True):
            rows = planned.plain(rows, tables)
            schema = [(f.name, f.dataType.simpleString()) for f in rows.schema if f.name != RID]
            table = _identified(rows.toArrow(), step["seq"])
            before, states = states, _states(table)
            changes = _changes(before, states, planned.renamed)
            behind[step["seq"]] = Behind(states, changes, schema)
            rows = spark.createDataFrame(table)
        return cls(loaded, behind)


def _identified(table: pa.Table, seq: int) -> pa.Table:
    """A row that was added is the one with these values, at this step."""
    found = []
    for row in table.to_pylist():
        mine = row.pop(RID)
        found.append(mine or f"{seq}|{exact_row(row, list(row))}")
    place = table.schema.get_field_index(RID)
    return table.set_column(place, RID, pa.array(found, pa.string()))


def _states(table: pa.Table) -> dict[str, State]:
    rows = table.to_pylist()
    found = {row.pop(RID): row for row in rows}
    assert len(found) == len(rows), "the model cannot tell its own rows apart"
    return found


def _changes(
    before: dict[str, State], after: dict[str, State], renamed: dict[str, str]
) -> dict[str, tuple[str, dict[str, tuple[Any, Any]]]]:
    """What a stranger sees who compares two states."""
    found: dict[str, tuple[str, dict[str, tuple[Any, Any]]]] = {}
    for row in before.keys() - after.keys():
        found[row] = ("deleted", {})
    for row, state in after.items():
        if row not in before:
            found[row] = ("created", {n: (None, exact(v)) for n, v in state.items()})
            continue
        old = {renamed.get(n, n): v for n, v in before[row].items()}
        pairs = {n: (exact(old.get(n)), exact(v)) for n, v in state.items()}
        if changed := {n: pair for n, pair in pairs.items() if pair[0] != pair[1]}:
            found[row] = ("updated", changed)
    return found


@pytest.fixture(scope="module", params=list(CHAIN))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def recorded(ran: Ran, name: str) -> Recorded:
    assert ran.asset(name).error is None, (ran.asset(name).error, _told(name))
    return Recorded(ran[name].folder / "trace")


@pytest.fixture(scope="module")
def model(recorded: Recorded, spark: SparkSession, name: str) -> Model:
    return Model.of(spark, CHAIN[name], recorded)


@pytest.fixture(scope="module")
def names(recorded: Recorded) -> dict[str, str]:
    """What the model calls the rows of the trace."""
    found = {row: after["id"] for row, (_, after) in recorded.baselines.items()}
    for r in recorded.records:
        if r.kind == "created":
            assert r.row_id not in found
            found[r.row_id] = f"{r.seq}|{exact_row(r.after or {}, list(r.after or {}))}"
    assert len(set(found.values())) == len(found)
    return found


def _told(name: str) -> str:
    return f"TALLYMAN_SEED={SEED} TALLYMAN_TURN={TURN}{CHAIN[name]}"


def test_each_step_recorded_every_change_and_no_other(
    recorded: Recorded, model: Model, names: dict[str, str], name: str
) -> None:
    assert recorded.complete == list(model.behind)
    for seq, behind in model.behind.items():
        mine = [r for r in recorded.records if r.seq == seq]
        found = {names[r.row_id]: (r.kind, {} if r.kind == "deleted" else _diff(r)) for r in mine}
        assert len(found) == len(mine)
        assert found == behind.changes, (seq, _told(name))


def _diff(record: Record) -> dict[str, tuple[Any, Any]]:
    if record.kind == "created":
        return {n: (None, exact(v)) for n, v in (record.after or {}).items()}
    return record.diff


def test_baselines_are_the_loaded_rows_and_come_with_the_first_touch(
    recorded: Recorded, model: Model, name: str
) -> None:
    first: dict[str, int] = {}
    for seq, behind in model.behind.items():
        for row in behind.changes.keys() & model.loaded.keys():
            first.setdefault(row, seq)
    columns = [column["name"] for column in recorded.head["loaded"]]
    found = {
        after["id"]: (seq, exact_row(after, columns)) for seq, after in recorded.baselines.values()
    }
    assert columns == list(model.loaded[next(iter(model.loaded))])
    assert found == {
        row: (seq, exact_row(model.loaded[row], columns)) for row, seq in first.items()
    }, _told(name)
    kinds = {
        table.schema.field("after").type
        for s in recorded.complete
        for table in recorded.tables(s, "baseline")
    }
    assert len(kinds) <= 1, (kinds, _told(name))


def test_replaying_the_trace_rebuilds_the_rows_as_they_are(
    ran: Ran, recorded: Recorded, model: Model, names: dict[str, str], name: str
) -> None:
    states = {names[row]: state for row, state in recorded.replayed().items()}
    for row, state in model.loaded.items():
        if row not in states:  # never touched: what was loaded, in the columns there are now
            states[row] = {**state, "_deleted": False}
            for step in recorded.steps:
                states[row] = moved(states[row], step)
    *_, last = model.behind.values()
    columns = [column for column, _ in last.schema]
    live = Counter(exact_row(s, columns) for s in states.values() if not s["_deleted"])
    output = ran.read(name)
    assert [(f.name, f.dataType.simpleString()) for f in output.schema] == last.schema, _told(name)
    made = Counter(exact_row(row, columns) for row in output.toArrow().to_pylist())
    assert live == made, _told(name)
    assert {row for row, s in states.items() if not s["_deleted"]} == set(last.rows), _told(name)


def test_an_output_tells_which_row_is_which(
    ran: Ran, recorded: Recorded, model: Model, names: dict[str, str], name: str
) -> None:
    """Deleted rows too: those of delete steps, as they were then."""
    place = ran[name].folder / "outputs" / "last"
    shown = [
        row for file in place.glob("*.parquet") for row in pq.ParquetFile(file).read().to_pylist()
    ]
    found = {row["_row_id"]: row for row in shown}
    assert len(found) == len(shown)
    replayed = recorded.replayed()
    deletes = {step["seq"] for step in recorded.steps if step["kind"] == "delete"}
    ended = {r.row_id: r.seq for r in recorded.records if r.kind == "deleted"}
    expected = {row for row, state in replayed.items() if not state["_deleted"]}
    expected |= {row for row, seq in ended.items() if seq in deletes}
    assert found.keys() & replayed.keys() == expected, _told(name)
    *_, last = model.behind.values()
    assert len(shown) == len(last.rows) + sum(seq in deletes for seq in ended.values())
    touched = {r.row_id for r in recorded.records if r.kind != "created"}
    columns = [column for column, _ in last.schema]
    for row_id, row in found.items():
        assert (row["_updated_at"] is not None) == (row_id in touched), (row, _told(name))
        assert row["_deleted"] == (row_id in ended)
        if row_id in replayed:
            same = _typed_as_then(model, name, ended[row_id]) if row["_deleted"] else columns
            assert exact_row(row, same) == exact_row(replayed[row_id], same), (row, _told(name))


def _typed_as_then(model: Model, name: str, seq: int) -> list[str]:
    """Columns that kept their type since a step: a deleted row has no value in another type."""
    kinds = dict(model.behind[seq].schema)
    for planned, (later, behind) in zip(CHAIN[name].planned, model.behind.items(), strict=True):
        if later > seq:
            moved_on = {planned.renamed.get(n, n): kind for n, kind in kinds.items()}
            kinds = {n: kind for n, kind in behind.schema if moved_on.get(n) == kind}
    return list(kinds)
