"""Ten assets with every verb, over bad data: what Tallyman says equals what plain Python computes.

Compared whole, as multisets: the fate of each record, group and child, each rejection, each row,
each sum. `why` is asked in bulk about all rows; `why` and `where` one by one about a systematic
sample, and about all rows and records whose key repeats or is NULL in part.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from tests.oracle import compare, data
from tests.oracle.account import Account, Unit
from tests.oracle.conftest import ASSETS, TARGETS, TOTAL, Depot
from tests.oracle.found import exact


def test_the_data_is_as_large_and_as_bad_as_it_should_be(depot: Depot) -> None:
    tables = [*depot.oracle.tables.values(), *depot.oracle.rounds.values()]
    records = [record for table in tables for record in table.records]
    assert len(records) == TOTAL == sum(data.sizes(TOTAL).values())
    faults = Counter((f.kind, r.place.input) for r in records for f in r.faults)
    assert {kind for kind, _ in faults} == {"parse_error", "type_cast_error", "null_error"}
    assert sum(faults.values()) > TOTAL / 20
    for name in ("parcels", "scans", "returns", "movements", "notices"):
        keys = Counter(r.key for r in depot.oracle.tables[name].records)
        assert any(not r.has_key for r in depot.oracle.tables[name].records), name
        assert name == "movements" or max(keys.values()) > 1, name


@pytest.mark.parametrize("name", TARGETS)
def test_every_record_group_and_child_met_its_fate(depot: Depot, name: str) -> None:
    account, found = depot.accounts[name], depot.found[name]
    with depot.compared.least(len(account.records)):
        compare.door(depot.compared, account, found)
        compare.fates(depot.compared, account, found)
    said = depot.said[name]
    fates = {fate: count for fate, count in said["fates"].items() if count}
    counted = Counter(fate for fate, _ in account.fates.values())
    depot.compared.same(
        "run --json", (len(account.records), dict(counted)), (said["records_in"], fates)
    )
    assert (said["status"], said["unaccounted"]) == ("success", 0)


@pytest.mark.parametrize("name", TARGETS)
def test_every_rejection_names_its_record_and_its_rule(depot: Depot, name: str) -> None:
    account, found = depot.accounts[name], depot.found[name]
    with depot.compared.least(len(account.letters)):
        compare.rejections(depot.compared, account, found)


@pytest.mark.parametrize("name", TARGETS)
def test_every_letter_has_an_id_and_a_number(depot: Depot, name: str) -> None:
    letters = depot.found[name].raw_letters
    ids = Counter(letter.get("error_id") for letter in letters)
    depot.compared.bags("error ids", Counter(dict.fromkeys(ids, 1)), ids)
    depot.compared.same("error ids", False, None in ids)
    own: Counter[str] = Counter()
    for unit in [*depot.accounts[name].records, *_made(depot.accounts[name])]:
        count = len(unit.letters)
        own.update(f"{number}/{count}" for number in range(1, count + 1))
    shown = Counter(letter["context"]["rejection"] for letter in letters)
    depot.compared.bags("numbers of rejections", own, shown)


def _made(account: Account) -> Iterator[Unit]:
    """Children that failed, and each record behind a group that did."""
    for sub in account.subs:
        for unit in sub.units:
            yield from [unit] * (len(unit.behind) if sub.unit == "group" else 1)


@pytest.mark.parametrize("name", TARGETS)
def test_every_sub_ledger_balances_over_the_units_there_are(depot: Depot, name: str) -> None:
    account, found = depot.accounts[name], depot.found[name]
    depot.compared.same("sub-ledgers", account.sub_ledgers(), found.sub_ledgers())
    assert [sub["unaccounted"] for sub in found.ledger["sub_ledgers"]] == [0] * len(account.subs)


@pytest.mark.parametrize("name", TARGETS)
def test_every_row_is_the_one_that_must_come_out(depot: Depot, name: str) -> None:
    account = depot.accounts[name]
    with depot.compared.least(len(account.rows)):
        compare.rows(depot.compared, account, depot.found[name])
    assert depot.said[name]["rows_out"] == len(account.rows)


@pytest.mark.parametrize("name", [*ASSETS, "depot_rounds"])
def test_every_row_of_the_published_version_is_served(depot: Depot, name: str) -> None:
    rows = [row for one in depot.oracle.of(name) for row in one.rows]
    if name == "notice_log":
        rows = [*depot.log[0], *depot.log[1]]
        assert min(map(len, depot.log)) > 0
    resolved, served = depot.project.rows(name, limit=10 * TOTAL)
    expected = Counter(exact(dict(row.values)) for row in rows)
    with depot.compared.least(len(rows)):
        depot.compared.bags("rows of versions", expected, Counter(map(exact, served)))
    depot.compared.same("versions", 2 if name == "notice_log" else 1, resolved.version.ordinal)


def test_the_files_of_output_steps_hold_the_rows_as_they_were(depot: Depot) -> None:
    account = depot.accounts["close"]
    names = tuple(account.rows[0].values)
    live = Counter(tuple(_text(row.values[n]) for n in names) for row in account.rows)
    with (depot.home / "exports/close.csv").open() as file:
        given = Counter(tuple(row[n] for n in names) for row in csv.DictReader(file))
    depot.compared.bags("output steps", live, given)
    gone = [unit for unit in account.records if unit.at == "no_negatives"]
    everything = Counter((exact(dict(row.values)), False) for row in account.rows)
    everything.update((exact({n: unit.values[n] for n in names}), True) for unit in gone)
    rows = pq.read_table(depot.home / "exports/all.parquet").to_pylist()
    shown = Counter((exact({n: row[n] for n in names}), row["_deleted"]) for row in rows)
    assert gone
    depot.compared.bags("output steps", everything, shown)


def _text(value: object) -> str:
    return "" if value is None else str(value)
