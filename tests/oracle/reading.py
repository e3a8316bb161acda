"""What the assets of the oracle share: their inputs, and NULL as SQL has it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from tests.oracle.account import Account, Row, Unit
from tests.oracle.raw import Place, Record, Table

Tables = Mapping[str, Table]


def admit(tables: Tables, account: Account, *names: str) -> list[Unit]:
    found = []
    for name in names:
        found += account.admit(tables[name].records, tables[name].blank_lines)
    return found


def read(account: Account, made: Account) -> list[Unit]:
    """The rows of another asset; one without a key is called after its tag."""
    records = [
        Record(row_place(made, row), key, row.values, has_key=not key.startswith("@"))
        for row in made.rows
        for key in [row.values["parcel_id"] or f"@{row.values['tag']}"]
    ]
    return account.admit(records)


def row_place(made: Account, row: Row) -> Place:
    """A row of a dataset, as the assets that read it know it."""
    return Place(made.asset, str(row.values["tag"]), 0)


def depots(tables: Tables) -> Callable[[str], Sequence[Record]]:
    known = {record.values["code"]: [record] for record in tables["depots"].records}
    return lambda code: known.get(code, [])


def above(value: Decimal | int | None, limit: Decimal | int | None) -> bool | None:
    return None if value is None or limit is None else value > limit


def by(units: Iterable[Unit], *names: str) -> dict[tuple[Any, ...], list[Unit]]:
    found: dict[tuple[Any, ...], list[Unit]] = defaultdict(list)
    for unit in units:
        found[tuple(unit.values[name] for name in names)].append(unit)
    return found
