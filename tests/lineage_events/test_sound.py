"""What lineage does not name has no influence: change such a column, and the result is the same.

The pipelines are written a second time as SQL, for another engine than Spark.
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

from tallyman.domain.definition.column_lineage import ColumnLineage
from tallyman.domain.pipeline.pipeline import Pipeline
from tallyman.engine.columns.lineage import column_lineage
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
AIRLINE_SQL = """
    SELECT flight_date, sum(ticket_price) AS total_revenue, count(*) AS segments
    FROM segments JOIN airlines ON airline = code
    WHERE ticket_price > 0 AND distance_km >= 0 AND status = 'FLOWN' GROUP BY flight_date
"""
CLOSING = """
    SELECT * FROM exchange_rates WHERE kind = 'closing' AND to_currency = 'USD'
    AND valid_from <= DATE '2026-01-01' AND (valid_to IS NULL OR valid_to > DATE '2026-01-01')
"""
LEDGER_SQL = f"""
    WITH kept AS (
        SELECT transactions.* REPLACE (
            amount_local * fx.rate AS amount_reporting,
            CASE WHEN region = 'EMEA' THEN amount_local * 1.05 ELSE amount_local END AS amount_local
        )
        FROM transactions LEFT JOIN ({CLOSING}) AS fx ON currency = fx.from_currency
        LEFT JOIN cost_centers ON cost_center = code
        WHERE NOT coalesce(source_system = 'EXPENSE' AND amount_local < 0, false)
    ), whole AS (
        SELECT * FROM kept
        UNION ALL BY NAME
        SELECT currency, sum(amount_reporting) AS total_reporting, count(journal_id) AS line_count
        FROM kept GROUP BY currency
        UNION ALL BY NAME
        SELECT account, cost_center, currency, sum(amount) AS amount_local
        FROM budgets WHERE amount > 5000 GROUP BY ALL
    )
    SELECT * REPLACE (
        CASE WHEN journal_id IS NULL AND amount_local IS NOT NULL THEN 'BUDGET'
        ELSE description END AS description
    ) FROM whole
"""
CHANGES: dict[str, Change] = {
    "turned round": lambda values: values[::-1],
    "emptied": lambda values: [None] * len(values),
    "all alike": lambda values: [values[0]] * len(values),
}


@dataclass(frozen=True)
class Whole:
    lineage: ColumnLineage
    query: str
    looked_up: Mapping[str, str]
    """By key, the rows in which a step looks up one."""
    pipeline: Pipeline
    data: Mapping[str, Rows]
    connection: duckdb.DuckDBPyConnection

    def __post_init__(self) -> None:
        for name, rows in self.data.items():
            self.put(name, rows)

    def result(self) -> Rows:
        return self.ask(self.query)

    def ask(self, query: str) -> Rows:
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
            self.ask(f"SELECT 1 FROM {rows} GROUP BY {key} HAVING count(*) > 1")
            for key, rows in self.looked_up.items()
        )


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
    if request.param == "airline":
        pipeline, asset, query = airline(), "daily_revenue", AIRLINE_SQL
        data = {"segments": rows_of(FLIGHTS), "airlines": rows_of(AIRLINES)}
        looked_up = {"code": "airlines"}
    else:
        pipeline, asset, query = ledger_close(tmp_path), "gl_close", LEDGER_SQL
        data = {name: rows_of(text) for name, text in general_ledger.DATA.items()}
        looked_up = {"from_currency": f"({CLOSING})", "code": "cost_centers"}
    lineage = column_lineage(pipeline.assets[asset].plan(), columns_of(pipeline))
    with duckdb.connect() as connection:
        yield Whole(lineage, query, looked_up, pipeline, data, connection)


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
