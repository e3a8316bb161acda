"""Ten assets with every verb, over bad data: what Tallyman says equals what plain Python computes.

Everything is compared whole, as multisets: the fate of each record, group and child, each rejection,
each row, each sum. `why` and `where` are asked in bulk about all rows and records, and one by one
about every SAMPLE-th and about all whose key repeats or is NULL.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.oracle import compare, data
from tests.oracle.account import Account, Row, Unit
from tests.oracle.conftest import ASSETS, TARGETS, TOTAL, Depot
from tests.oracle.expected import Oracle
from tests.oracle.found import exact
from tests.oracle.raw import KEYS, Record
from tests.oracle.walks import expected_where, expected_why, found_where, found_why

# What other parts of issue 13 change, and what the oracle expects already. Delete an entry when its
# part is merged: the test says so by itself (strict).
#   a  which records a source rejects is decided by all declared columns
#   b  a rule is not charged to a record whose field could not be read
#   c  why and where are exact also where keys repeat or are NULL in part
#   d  letters have an error_id, and say which of the record's rejections they are
PENDING: dict[tuple[str, str], str] = {}


def pending(test: str, names: Iterable[str]) -> list[Any]:
    """The names as parameters, those that wait for another part marked."""
    marks = {
        name: [pytest.mark.xfail(reason=f"issue 13: {why}", strict=True, raises=compare.Different)]
        for name in names
        if (why := PENDING.get((test, name)))
    }
    return [pytest.param(name, marks=marks.get(name, ())) for name in names]


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


@pytest.mark.parametrize("name", pending("fates", TARGETS))
def test_every_record_group_and_child_met_its_fate(depot: Depot, name: str) -> None:
    account, found = depot.accounts[name], depot.found[name]
    compare.door(depot.compared, account, found)
    compare.fates(depot.compared, account, found)
    said = depot.said[name]
    fates = {fate: count for fate, count in said["fates"].items() if count}
    counted = Counter(fate for fate, _ in account.fates.values())
    depot.compared.same("run --json", (len(account.records), dict(counted)), (said["records_in"], fates))
    assert (said["status"], said["unaccounted"]) == ("success", 0)


@pytest.mark.parametrize("name", pending("rejections", TARGETS))
def test_every_rejection_names_its_record_and_its_rule(depot: Depot, name: str) -> None:
    account, found = depot.accounts[name], depot.found[name]
    compare.rejections(depot.compared, account, found)


@pytest.mark.parametrize("name", pending("letters", TARGETS))
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


@pytest.mark.parametrize("name", pending("sub-ledgers", TARGETS))
def test_every_sub_ledger_balances_over_the_units_there_are(depot: Depot, name: str) -> None:
    account, found = depot.accounts[name], depot.found[name]
    depot.compared.same("sub-ledgers", account.sub_ledgers(), found.sub_ledgers())
    assert [sub["unaccounted"] for sub in found.ledger["sub_ledgers"]] == [0] * len(account.subs)


@pytest.mark.parametrize("name", pending("rows", TARGETS))
def test_every_row_is_the_one_that_must_come_out(depot: Depot, name: str) -> None:
    account = depot.accounts[name]
    compare.rows(depot.compared, account, depot.found[name])
    assert depot.said[name]["rows_out"] == len(account.rows)


@pytest.mark.parametrize("name", pending("versions", (*ASSETS, "depot_rounds")))
def test_every_row_of_the_published_version_is_served(depot: Depot, name: str) -> None:
    rows = [row for one in accounts_of(depot, name) for row in one.rows]
    if name == "notice_log":
        rows = [*depot.log[0], *depot.log[1]]
        assert min(map(len, depot.log)) > 0
    resolved, served = depot.project.rows(name, limit=10 * TOTAL)
    expected = Counter(exact(dict(row.values)) for row in rows)
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


# ---- why and where ----------------------------------------------------------------------------

ASKED_BY = {
    "clean_parcels": ("tag",),
    "zone_days": ("zone", "sent_on"),
    "offers": ("tag", "offer"),
    "labels": ("tag", "label"),
    "scan_trail": ("tag",),
    "depot_scans": ("depot", "kind"),
    "weights": ("tag",),
    "close": ("tag", "region"),
    "depot_rounds": ("day", "depot"),
}
IN_BULK = {
    "clean_parcels": "zone",
    "offers": "offer",
    "labels": "label",
    "scan_trail": "kind",
    "weights": "day",
    "zone_days": "zone",
    "depot_scans": "depot",
}
EACH = 40
"""Rows of a dataset, or records of a source, that are asked about one by one; and all odd ones."""


def asked(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    return {name: "null" if values[name] is None else str(values[name]) for name in names}


def one_by_one(oracle: Oracle, rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Rows behind which all keys are plain, every n-th; and all others."""
    odd = [row for row in rows if row.behind & oracle.odd]
    plain = [row for row in rows if not row.behind & oracle.odd]
    return plain[:: max(1, len(plain) // EACH)], odd


def ask_why(depot: Depot, account: Account, rows: Sequence[Row], given: Mapping[str, str]) -> None:
    what = f"why: {account.asset} {dict(given)}"
    found = depot.project.why(account.asset, given, limit=None)
    depot.compared.same(what, len(rows), found.rows)
    same_walk(depot, what, expected_why(depot.oracle, account, rows), found_why(found.hops))
    depot.compared.counts["rows asked why"] += len(rows)


def same_walk(depot: Depot, what: str, expected: Any, found: Any) -> None:
    """Part by part, so that a difference is small enough to read."""
    if isinstance(expected, Counter) and isinstance(found, Counter):
        depot.compared.bags(what, expected, found)
    elif isinstance(expected, Mapping) and isinstance(found, Mapping):
        depot.compared.same(what, sorted(expected), sorted(found))
        for name, part in expected.items():
            same_walk(depot, f"{what} {name}", part, found[name])
    elif isinstance(expected, (list, tuple)) and isinstance(found, (list, tuple)):
        depot.compared.same(what, len(expected), len(found))
        for part, other in zip(expected, found, strict=True):
            same_walk(depot, what, part, other)
    else:
        depot.compared.same(what, expected, found)


def accounts_of(depot: Depot, name: str) -> list[Account]:
    return [one for (asset, _), one in depot.oracle.accounts.items() if asset == name]


@pytest.mark.parametrize("name", pending("why", ASKED_BY))
def test_why_names_the_records_behind_rows_with_plain_keys(depot: Depot, name: str) -> None:
    for account in accounts_of(depot, name):
        plain, _ = one_by_one(depot.oracle, account.rows)
        for row in plain:
            ask_why(depot, account, [row], asked(row.values, ASKED_BY[name]))


@pytest.mark.parametrize("name", pending("why, odd keys", ASKED_BY))
def test_why_names_the_records_behind_rows_with_odd_keys(depot: Depot, name: str) -> None:
    for account in accounts_of(depot, name):
        _, odd = one_by_one(depot.oracle, account.rows)
        assert odd
        for row in odd:
            ask_why(depot, account, [row], asked(row.values, ASKED_BY[name]))


@pytest.mark.parametrize("name", pending("why, in bulk", IN_BULK))
def test_why_names_the_records_behind_all_rows(depot: Depot, name: str) -> None:
    [account], column = accounts_of(depot, name), IN_BULK[name]
    for value in dict.fromkeys(row.values[column] for row in account.rows):
        some = [row for row in account.rows if row.values[column] == value]
        ask_why(depot, account, some, asked(some[0].values, [column]))


SOURCES = ("parcels", "scans", "returns", "movements", "adjustments", "notices", "rounds")
REFERENCES = ("depots", "tariffs", "accounts")


def source_records(depot: Depot, name: str) -> list[Record]:
    tables = depot.oracle.rounds.values() if name == "rounds" else [depot.oracle.tables[name]]
    return [record for table in tables for record in table.records]


def ask_where(depot: Depot, records: Sequence[Record], given: Mapping[str, str]) -> None:
    source = records[0].place.input
    what = f"where: {source} {dict(given)}"
    found = depot.project.where(source, given, limit=None)
    places = Counter((record.place.file, record.place.line) for record in records)
    depot.compared.bags(what, places, Counter((one.file, one.line) for one in found.records))
    expected = expected_where(depot.oracle, source, [record.place for record in records])
    same_walk(depot, what, expected, found_where(found.became))
    depot.compared.counts["records asked where"] += len(records)


def place_of(record: Record) -> dict[str, str]:
    root = {"scans": "data/", "movements": "data/", "adjustments": "data/"}
    below = root.get(record.place.input, f"data/{record.place.input}/")
    return {"@": f"@{record.place.file.removeprefix(below)}#{record.place.line}"}


@pytest.mark.parametrize("name", pending("where", SOURCES))
def test_where_says_what_became_of_records_with_plain_keys(depot: Depot, name: str) -> None:
    plain = [r for r in source_records(depot, name) if r.place not in depot.oracle.odd]
    for record in plain[:: max(1, len(plain) // EACH)]:
        ask_where(depot, [record], place_of(record))


@pytest.mark.parametrize("name", pending("where, odd keys", SOURCES))
def test_where_says_what_became_of_records_with_odd_keys(depot: Depot, name: str) -> None:
    odd = [r for r in source_records(depot, name) if r.place in depot.oracle.odd]
    assert odd
    for record in odd:
        ask_where(depot, [record], place_of(record))


@pytest.mark.parametrize("name", pending("where, by key", SOURCES))
def test_where_follows_all_records_that_share_a_key(depot: Depot, name: str) -> None:
    shared: dict[str, list[Record]] = {}
    for record in source_records(depot, name):
        if record.has_key:
            shared.setdefault(record.key, []).append(record)
    several = [records for records in shared.values() if len(records) > 1]
    for records in several or list(shared.values())[:10]:
        ask_where(depot, records, key_of(records[0]))


def key_of(record: Record) -> dict[str, str]:
    names = KEYS[record.place.input]
    if len(names) == 1:
        return {names[0]: record.key}
    return asked(json.loads(record.key), names)


@pytest.mark.parametrize("name", pending("where, references", REFERENCES))
def test_a_reference_was_met_by_the_records_that_reached_the_join(depot: Depot, name: str) -> None:
    for record in source_records(depot, name):
        ask_where(depot, [record], asked(record.values, KEYS[name]))
