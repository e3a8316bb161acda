"""The general-ledger close of `spec/trace.md`: a project in both forms, and every number of it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

DATA = {
    "transactions": """\
journal_id,line,account,cost_center,currency,amount_local,amount_reporting,source_system,description
JE-001,1,4100,CC-100,USD,15000.00,15000.00,ERP,
JE-001,2,1200,CC-100,USD,15000.00,15000.00,ERP,
JE-002,1,5100,CC-200,EUR,8500.00,,EXPENSE,
JE-002,2,2100,CC-200,EUR,-8500.00,,EXPENSE,
JE-003,1,4200,CC-300,GBP,22000.00,,ERP,
JE-003,2,1200,CC-300,GBP,22000.00,,ERP,
JE-004,1,5200,CC-100,USD,3200.00,3200.00,EXPENSE,
JE-004,2,2100,CC-100,USD,-3200.00,-3200.00,EXPENSE,
JE-005,1,4100,CC-200,JPY,2500000.00,,ERP,
JE-005,2,1200,CC-200,JPY,2500000.00,,ERP,
""",
    "cost_centers": "code,region\nCC-100,AMER\nCC-200,EMEA\nCC-300,EMEA\n",
    "exchange_rates": """\
from_currency,to_currency,kind,rate,valid_from,valid_to
EUR,USD,closing,1.0850,2025-01-01,2026-01-01
EUR,USD,closing,1.0920,2026-01-01,
EUR,USD,average,1.0800,2025-01-01,2026-01-01
EUR,USD,average,1.0900,2026-01-01,
GBP,USD,closing,1.2650,2025-01-01,2026-01-01
GBP,USD,closing,1.2710,2026-01-01,
JPY,USD,closing,0.00667,2025-01-01,2026-01-01
JPY,USD,closing,0.00672,2026-01-01,
USD,USD,closing,1.0000,2020-01-01,
""",
    "budgets": """\
account,cost_center,currency,amount
4100,CC-100,USD,20000.00
5100,CC-200,EUR,10000.00
4200,CC-300,GBP,25000.00
5200,CC-100,USD,5000.00
""",
}
IN_PYTHON = """\
import tallyman as tm

tm.source(
    "transactions", "data/transactions.csv", "csv", key=["journal_id", "line"],
    schema="journal_id string, line int, account string, cost_center string, currency string, "
    "amount_local decimal(18,2), amount_reporting decimal(18,2), source_system string, "
    "description string",
)
tm.source("cost_centers", "data/cost_centers.csv", "csv", key="code",
          schema="code string, region string")
tm.source(
    "exchange_rates", "data/exchange_rates.csv", "csv",
    schema="from_currency string, to_currency string, kind string, rate decimal(12,6), "
    "valid_from date, valid_to date",
)
tm.source("budgets", "data/budgets.csv", "csv", key=["account", "cost_center", "currency"],
          schema="account string, cost_center string, currency string, amount decimal(18,2)")
EMEA_ONLY = "(cost_centers.region = 'EMEA')"


@tm.asset
def gl_close(transactions, exchange_rates, cost_centers, budgets):
    closing = exchange_rates.filter(
        "kind = 'closing' AND to_currency = 'USD' AND valid_from <= DATE'2026-01-01' "
        "AND (valid_to IS NULL OR valid_to > DATE'2026-01-01')"
    )
    return (
        transactions.update(
            {"amount_reporting": "amount_local * fx.rate"},
            join={"fx": (closing, "currency = fx.from_currency")},
        )
        .update(
            {"amount_local": "amount_local * 1.05"},
            where=EMEA_ONLY,
            join={"cost_centers": (cost_centers, "cost_center = code")},
        )
        .delete("source_system = 'EXPENSE' AND amount_local < 0")
        .aggregate(
            ["currency"], total_reporting="sum(amount_reporting)", line_count="count(journal_id)"
        )
        .append(
            budgets,
            where="amount > 5000",
            aggregate={
                "by": ["account", "cost_center", "currency"],
                "set": {"amount_local": "sum(amount)"},
            },
        )
        .update(
            {"description": "'BUDGET'"}, where="journal_id IS NULL AND amount_local IS NOT NULL"
        )
        .output("exports/gl.csv")
        .output("exports/all.parquet", include_deleted=True)
    )
"""
IN_YAML = """\
sources:
  transactions:
    path: data/transactions.csv
    format: csv
    key: [journal_id, line]
    schema: >-
      journal_id string, line int, account string, cost_center string, currency string,
      amount_local decimal(18,2), amount_reporting decimal(18,2), source_system string,
      description string
  cost_centers:
    {path: data/cost_centers.csv, format: csv, key: code, schema: "code string, region string"}
  exchange_rates:
    path: data/exchange_rates.csv
    format: csv
    schema: >-
      from_currency string, to_currency string, kind string, rate decimal(12,6),
      valid_from date, valid_to date
  budgets:
    path: data/budgets.csv
    format: csv
    key: [account, cost_center, currency]
    schema: account string, cost_center string, currency string, amount decimal(18,2)
selectors:
  EMEA_ONLY: cost_centers.region = 'EMEA'
assets:
  gl_close:
    from: transactions
    steps:
      - update:
          set: {amount_reporting: amount_local * fx.rate}
          join:
            fx:
              from: exchange_rates
              where: >-
                kind = 'closing' AND to_currency = 'USD' AND valid_from <= DATE'2026-01-01'
                AND (valid_to IS NULL OR valid_to > DATE'2026-01-01')
              on: currency = fx.from_currency
      - update:
          set: {amount_local: amount_local * 1.05}
          where: "{{EMEA_ONLY}}"
          join: {cost_centers: {from: cost_centers, on: cost_center = code}}
      - delete: source_system = 'EXPENSE' AND amount_local < 0
      - aggregate:
          by: [currency]
          set: {total_reporting: sum(amount_reporting), line_count: count(journal_id)}
      - append:
          from: budgets
          where: amount > 5000
          aggregate: {by: [account, cost_center, currency], set: {amount_local: sum(amount)}}
      - update:
          set: {description: "'BUDGET'"}
          where: journal_id IS NULL AND amount_local IS NOT NULL
      - output: {path: exports/gl.csv}
      - output: {path: exports/all.parquet, include_deleted: true}
"""


def write(home: Path, form: str) -> None:
    for name, text in DATA.items():
        place = home / "data" / f"{name}.csv"
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    (home / "pipelines").mkdir()
    file, text = {"python": ("gl.py", IN_PYTHON), "yaml": ("gl.yaml", IN_YAML)}[form]
    (home / "pipelines" / file).write_text(text)


# ---- what must come of it ------------------------------------------------------------------

COLUMNS = DATA["transactions"].partition("\n")[0].split(",")
MONEY = ("amount_local", "amount_reporting")


def _line(text: str) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(COLUMNS, (v or None for v in text.split(",")), strict=True))
    row["line"] = int(row["line"])
    return row | {n: row[n] and Decimal(row[n]) for n in MONEY}


LINES = {
    f"{row['journal_id']}/{row['line']}": row
    for row in map(_line, DATA["transactions"].splitlines()[1:])
}


def _changed(column: str, values: dict[str, str], old: str | None = None) -> dict[str, Any]:
    """{row: (kind, before, after)}"""
    return {
        row: ("updated", {column: LINES[row][column] if old is None else old}, {column: Decimal(v)})
        for row, v in values.items()
    }


CONVERTED = {"JE-002/1": "9282.00", "JE-002/2": "-9282.00", "JE-003/1": "27962.00"}
CONVERTED |= {"JE-003/2": "27962.00", "JE-005/1": "16800.00", "JE-005/2": "16800.00"}
RAISED = {"JE-002/1": "8925.00", "JE-002/2": "-8925.00", "JE-003/1": "23100.00"}
RAISED |= {"JE-003/2": "23100.00", "JE-005/1": "2625000.00", "JE-005/2": "2625000.00"}
TOTALS = {"USD": ("33200.00", 3), "EUR": ("9282.00", 1), "GBP": ("55924.00", 2)}
TOTALS |= {"JPY": ("33600.00", 2)}
BUDGETS = {"4100": ("CC-100", "USD", "20000.00"), "5100": ("CC-200", "EUR", "10000.00")}
BUDGETS |= {"4200": ("CC-300", "GBP", "25000.00")}
EMPTY = dict.fromkeys([*COLUMNS, "total_reporting", "line_count"])
SUMMARIES = {
    currency: EMPTY | {"currency": currency, "total_reporting": Decimal(total), "line_count": count}
    for currency, (total, count) in TOTALS.items()
}
BUDGETED = {
    account: EMPTY
    | {
        "account": account,
        "cost_center": center,
        "currency": currency,
        "amount_local": Decimal(amount),
    }
    for account, (center, currency, amount) in BUDGETS.items()
}
DELETED = ("deleted", {"_deleted": False}, None)
RECORDS: dict[int, dict[str, Any]] = {
    10: _changed("amount_reporting", CONVERTED),
    20: _changed("amount_local", RAISED),
    30: {"JE-002/2": DELETED, "JE-004/2": DELETED},
    40: {name: ("created", None, row) for name, row in SUMMARIES.items()},
    50: {name: ("created", None, row) for name, row in BUDGETED.items()},
    60: {n: ("updated", {"description": None}, {"description": "BUDGET"}) for n in BUDGETED},
    70: {},
    80: {},
}
BASELINES = {row: (10, LINES[row]) for row in CONVERTED} | {"JE-004/2": (30, LINES["JE-004/2"])}


def name_of(state: dict[str, Any]) -> str:
    """What this file calls a row."""
    if state["journal_id"]:
        return f"{state['journal_id']}/{state['line']}"
    return state["account"] or state["currency"]
