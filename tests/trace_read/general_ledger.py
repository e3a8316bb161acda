"""The general-ledger close: what its seven steps recorded, as `spec/trace.md` tells it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.trace_read.layout import RunFiles, TargetFiles, row_id

MONEY = pa.decimal128(18, 2)
LOADED = {
    "journal_id": pa.string(),
    "line": pa.int32(),
    "account": pa.string(),
    "cost_center": pa.string(),
    "currency": pa.string(),
    "amount_local": MONEY,
    "amount_reporting": MONEY,
    "source_system": pa.string(),
    "description": pa.string(),
}
SUMMED = {**LOADED, "total_reporting": pa.decimal128(28, 2), "line_count": pa.int64()}
INPUT = """
JE-001/1 4100 CC-100 USD 15000.00 15000.00 ERP
JE-001/2 1200 CC-100 USD 15000.00 15000.00 ERP
JE-002/1 5100 CC-200 EUR 8500.00 null EXPENSE
JE-002/2 2100 CC-200 EUR -8500.00 null EXPENSE
JE-003/1 4200 CC-300 GBP 22000.00 null ERP
JE-003/2 1200 CC-300 GBP 22000.00 null ERP
JE-004/1 5200 CC-100 USD 3200.00 3200.00 EXPENSE
JE-004/2 2100 CC-100 USD -3200.00 -3200.00 EXPENSE
JE-005/1 4100 CC-200 JPY 2500000.00 null ERP
JE-005/2 1200 CC-200 JPY 2500000.00 null ERP
"""
CONVERTED = {"JE-002/1": "9282.00", "JE-002/2": "-9282.00", "JE-003/1": "27962.00"}
CONVERTED |= {"JE-003/2": "27962.00", "JE-005/1": "16800.00", "JE-005/2": "16800.00"}
RAISED = {"JE-002/1": "8925.00", "JE-002/2": "-8925.00", "JE-003/1": "23100.00"}
RAISED |= {"JE-003/2": "23100.00", "JE-005/1": "2625000.00", "JE-005/2": "2625000.00"}
TOTALS = {"USD": ("33200.00", 3), "EUR": ("9282.00", 1), "GBP": ("55924.00", 2)}
TOTALS |= {"JPY": ("33600.00", 2)}
BUDGETS = {"4100": ("CC-100", "USD", "20000"), "5100": ("CC-200", "EUR", "10000")}
BUDGETS |= {"4200": ("CC-300", "GBP", "25000")}
SEQS = (10, 20, 30, 40, 50, 60, 70)


def _row(line: str) -> tuple[str, dict[str, Any]]:
    key, account, center, currency, local, reporting, system = line.split()
    journal, number = key.split("/")
    return key, {
        "journal_id": journal,
        "line": int(number),
        "account": account,
        "cost_center": center,
        "currency": currency,
        "amount_local": Decimal(local),
        "amount_reporting": None if reporting == "null" else Decimal(reporting),
        "source_system": system,
        "description": None,
    }


LINES: dict[str, dict[str, Any]] = dict(map(_row, INPUT.strip().splitlines()))


def write(run: RunFiles, *, until: int = 70, asset: str = "gl_close") -> TargetFiles:
    """The steps up to `until` are complete, as in a run that failed behind it."""
    files = run.target(asset, LOADED)
    fx = {"amount_reporting": MONEY}
    files.step(10, "update", assigned=fx, text="amount_reporting = amount_local * fx.rate")
    files.step(20, "update", assigned={"amount_local": MONEY}, text="amount_local * 1.05")
    files.step(30, "delete", text="rows where source_system = 'EXPENSE' AND amount_local < 0")
    files.step(40, "aggregate", columns=SUMMED).step(50, "append")
    files.step(60, "update", assigned={"description": pa.string()}).step(70, "output").begin()
    for seq in SEQS:
        if seq <= until:
            files.complete(seq, **CHANGES[seq])
    return files


def _ids(values: dict[str, Any]) -> dict[str, Any]:
    return {row_id(key): value for key, value in values.items()}


def _budget(account: str) -> dict[str, Any]:
    center, currency, amount = BUDGETS[account]
    found: dict[str, Any] = {"account": account, "cost_center": center, "currency": currency}
    return found | {"amount_local": Decimal(amount).quantize(Decimal("0.01"))}


CHANGES: dict[int, dict[str, Any]] = {
    10: {
        "updated": _ids(
            {k: {"amount_reporting": (None, Decimal(new))} for k, new in CONVERTED.items()}
        ),
        "baseline": _ids({key: LINES[key] for key in CONVERTED}),
    },
    20: {
        "updated": _ids(
            {
                key: {"amount_local": (LINES[key]["amount_local"], Decimal(new))}
                for key, new in RAISED.items()
            }
        )
    },
    30: {
        "deleted": [row_id("JE-002/2"), row_id("JE-004/2")],
        "baseline": _ids({"JE-004/2": LINES["JE-004/2"]}),
    },
    40: {
        "created": {
            row_id(currency, 4): {
                "currency": currency,
                "total_reporting": Decimal(total),
                "line_count": count,
            }
            for currency, (total, count) in TOTALS.items()
        }
    },
    50: {"created": {row_id(account, 5): _budget(account) for account in BUDGETS}},
    60: {"updated": {row_id(a, 5): {"description": (None, "BUDGET")} for a in BUDGETS}},
    70: {},
}
