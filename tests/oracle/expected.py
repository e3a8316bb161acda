"""The oracle: what every asset of the depot must come to, from the raw files alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from tests.oracle import other_assets as others
from tests.oracle import parcel_assets as parcels
from tests.oracle.account import Account, Row
from tests.oracle.raw import Place, Table, table
from tests.oracle.reading import row_place

FOLDERS = {
    "parcels": "data/parcels",
    "scans": "data/scans.csv",
    "returns": "data/returns",
    "movements": "data/movements.csv",
    "adjustments": "data/adjustments.jsonl",
    "notices": "data/notices",
    "depots": "data/depots.csv",
    "accounts": "data/accounts.csv",
    "tariffs": "data/tariffs.parquet",
}


class Oracle:
    """Read when the files are as the run reads them; `before` are rows that were there already."""

    def __init__(self, home: Path, days: Sequence[date], today: date) -> None:
        self.tables: dict[str, Table] = {n: table(home, n, f) for n, f in FOLDERS.items()}
        self.rounds = {day: table(home, "rounds", f"data/rounds/{day}") for day in days}
        self.today = today
        tables = self.tables
        clean = parcels.clean_parcels(tables)
        made = [
            clean,
            parcels.zone_days(clean),
            parcels.offers(tables, clean),
            parcels.labels(tables),
            others.scan_trail(tables),
            others.depot_scans(tables),
            others.weights(tables, clean),
            others.close(tables),
            others.notice_log(tables, today),
            *(others.depot_rounds(rounds, day) for day, rounds in self.rounds.items()),
        ]
        self.accounts = {(one.asset, one.partition): one for one in made}
        self.earlier: list[Account] = []
        """Results of earlier runs that are in the current version too."""
        self.odd = frozenset(self._odd(clean))
        """Records and rows whose key repeats or is NULL, or that were made from such."""

    def of(self, asset: str) -> list[Account]:
        """One, or one for each partition."""
        return [one for (name, _), one in self.accounts.items() if name == asset]

    def _odd(self, clean: Account) -> Iterator[Place]:
        for source in [*self.tables.values(), *self.rounds.values()]:
            counted = Counter(record.key for record in source.records)
            odd = [r.place for r in source.records if not r.has_key or counted[r.key] > 1]
            yield from odd
            if source.name == "parcels":
                rows = [row for row in clean.rows if row.behind & frozenset(odd)]
                yield from (row_place(clean, row) for row in rows)


def appended(before: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """The rows that are new: of each subject the first, if none was there."""
    there = {row.values["subject"] for row in before}
    first: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda row: row.values["tag"]):
        first.setdefault(row.values["subject"], row)
    return [row for subject, row in first.items() if subject not in there]


def logged(rows: Iterable[Row], today: date) -> list[Row]:
    return [replace(row, values={**row.values, "logged_on": today}) for row in rows]


def repeated(account: Account) -> Counter[str]:
    """Keys that more than one record of the asset's inputs has."""
    counted = Counter(unit.key for unit in account.records)
    return Counter({key: n for key, n in counted.items() if n > 1})
