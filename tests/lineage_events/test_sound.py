"""What lineage does not name has no influence: change such a column, and the result is the same.

The plan is executed as one SQL query, by another engine than Spark.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot

from tallyman.domain.definition.column_lineage import ColumnLineage
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step import Join
from tallyman.domain.definition.working_step import Update
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.engine.columns.lineage import column_lineage
from tallyman.engine.plan.in_place import equalities
from tallyman.engine.plan.plain import join_pairs
from tests.lineage_events.plan_sql import plan_sql
from tests.lineage_events.plans import airline, columns_of, ledger_close
from tests.trace import general_ledger

Rows = list[dict[str, Any]]
Change = Callable[[list[Any]], list[Any]]
FLIGHTS = """\
segment_id,flight_date,status,airline,ticket_price,distance_km
S1,2024-01-15,FLOWN,AB,100.00,500
S2,2024-01-15,FLOWN,CD,250.50,0
S3,2024-01-16,FLOWN,AB,80.00,900
S4,2024-01-16,CANCELLED,AB,70.00,900
S5,2024-01-17,FLOWN,CD,-1.00,10
S6,2024-01-17,FLOWN,XX,60.00,10
S7,2024-01-18,FLOWN,AB,60.00,-3
"""
AIRLINES = "code,name\nAB,Alpha\nCD,Delta\n"
CHANGES: dict[str, Change] = {
    "turned round": lambda values: values[::-1],
    "emptied": lambda values: [None] * len(values),
    "all alike": lambda values: [values[0]] * len(values),
}


@dataclass(frozen=True)
class Whole:
    plan: Frame
    pipeline: Pipeline
    data: Mapping[str, Rows]
    connection: duckdb.DuckDBPyConnection

    def __post_init__(self) -> None:
        for name, rows in self.data.items():
            self.put(name, rows)

    @property
    def lineage(self) -> ColumnLineage:
        return column_lineage(self.plan, columns_of(self.pipeline))

    def result(self) -> Rows:
        return self.ask(plan_sql(self.plan))

    def ask(self, text: str) -> Rows:
        query = sqlglot.transpile(text, read="spark", write="duckdb")[0]
        found = self.connection.execute(query)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def put(self, name: str, rows: Rows) -> None:
        schema = (self.pipeline.sources[name].schema or "").replace(" string", " varchar")
        schema = schema.replace(" not null", "")
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} ({schema})")
        marks = ", ".join(f"({', '.join('?' * len(row))})" for row in rows)
        given = [value for row in rows for value in row.values()]
        self.connection.execute(f"INSERT INTO {name} VALUES {marks}", given)

    def changed(self) -> Iterator[tuple[str, str, Rows]]:
        """What comes out when one column of one input is another."""
        for name, rows in self.data.items():
            for column in rows[0]:
                for change in CHANGES.values():
                    values = change([row[column] for row in rows])
                    self.put(name, [r | {column: v} for r, v in zip(rows, values, strict=True)])
                    if not self.refused():
                        yield name, column, self.result()
            self.put(name, rows)

    def refused(self) -> bool:
        """A lookup that finds two rows makes no result at all."""
        return any(
            self.ask(
                f"SELECT 1 FROM ({plan_sql(other)}) GROUP BY {', '.join(keys)} HAVING count(*) > 1"
            )
            for other, keys in self.looked_up()
        )

    def looked_up(self) -> Iterator[tuple[Frame, list[str]]]:
        for step in self.plan.steps():
            if isinstance(step, Join):
                yield step.other, [right for _, right in join_pairs(step.on, (), ())]
            for each in step.join if isinstance(step, Update) else ():
                yield each.other, [right for _, right in join_pairs(equalities(each), (), ())]


def rows_of(text: str) -> Rows:
    return [{n: v or None for n, v in row.items()} for row in csv.DictReader(io.StringIO(text))]


def disagreements(whole: Whole, lineage: ColumnLineage) -> list[tuple[str, str, str]]:
    """(input, column, column of the result) that changed although nothing leads from one to the
    other."""
    before = whole.result()
    assert before
    found = []
    for name, column, after in whole.changed():
        here = {(origin.input, origin.column) for origin in lineage.rows}
        if (name, column) in here:
            continue
        for made, origins in lineage.columns.items():
            led = {(origin.input, origin.column) for origin in origins}
            if (name, column) not in led and _values(before, made) != _values(after, made):
                found.append((name, column, made))
    return found


def _values(rows: Rows, column: str) -> Counter[Any]:
    return Counter(row[column] for row in rows)


@pytest.fixture(params=["airline", "general ledger"])
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Whole]:
    flights = {"segments": rows_of(FLIGHTS), "airlines": rows_of(AIRLINES)}
    ledger = {name: rows_of(text) for name, text in general_ledger.DATA.items()}
    of_airline = request.param == "airline"
    pipeline = airline() if of_airline else ledger_close(tmp_path)
    plan = pipeline.assets["daily_revenue" if of_airline else "gl_close"].plan()
    with duckdb.connect() as connection:
        yield Whole(plan, pipeline, flights if of_airline else ledger, connection)


def test_what_is_not_told_has_no_influence(whole: Whole) -> None:
    assert set(whole.result()[0]) == set(whole.lineage.columns)
    assert disagreements(whole, whole.lineage) == []


def test_an_origin_left_out_would_be_found(whole: Whole) -> None:
    silent = ColumnLineage(dict.fromkeys(whole.lineage.columns, ()))
    found = {(name, column) for name, column, _ in disagreements(whole, silent)}
    told = {(o.input, o.column) for o in whole.lineage.rows}
    told |= {(o.input, o.column) for listed in whole.lineage.columns.values() for o in listed}
    assert found <= told
    assert len(found) > len(told) * 2 / 3
