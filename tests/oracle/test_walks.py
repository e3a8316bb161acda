"""`why` and `where` name exactly the records and rows that plain Python names."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.oracle.account import Account, Row
from tests.oracle.conftest import FULL, SOURCES, Depot
from tests.oracle.raw import KEYS, Record
from tests.oracle.walks import expected_where, expected_why, found_where, found_why
from tests.world.scale import by_form

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
EACH = by_form(2, 60)
"""Rows of a dataset, or records of a source, that are asked about one by one; in the full form also
all odd ones."""


def asked(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    return {name: "null" if values[name] is None else str(values[name]) for name in names}


def every_nth(rows: Sequence[Any]) -> list[Any]:
    return list(rows[:: max(1, len(rows) // EACH)])


def rows_of(depot: Depot, name: str, *, odd: bool) -> list[tuple[Account, Row]]:
    """Rows behind which is a key that repeats or is NULL in part; or others."""
    oracle = depot.oracle
    rows = [(account, row) for account in oracle.of(name) for row in account.rows]
    found = [(account, row) for account, row in rows if bool(row.behind & oracle.odd) is odd]
    return found if odd and FULL else every_nth(found)


def records_of(depot: Depot, name: str, *, odd: bool) -> list[Record]:
    records = source_records(depot, name)
    found = [record for record in records if (record.place in depot.oracle.odd) is odd]
    return found if odd and FULL else every_nth(found)


def test_enough_rows_and_records_are_asked_about(depot: Depot) -> None:
    rows = [len(rows_of(depot, name, odd=odd)) for name in ASKED_BY for odd in (False, True)]
    records = [len(records_of(depot, name, odd=odd)) for name in SOURCES for odd in (False, True)]
    assert min(*rows[1::2], *records) > 0
    assert min(sum(rows), sum(records)) > by_form(20, 200)
    assert sum(rows) + sum(records) > by_form(45, 2_500)


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


@pytest.mark.parametrize("name", ASKED_BY)
def test_why_names_the_records_behind_rows_with_plain_keys(depot: Depot, name: str) -> None:
    for account, row in rows_of(depot, name, odd=False):
        ask_why(depot, account, [row], asked(row.values, ASKED_BY[name]))


@pytest.mark.parametrize("name", ASKED_BY)
def test_why_names_the_records_behind_rows_with_odd_keys(depot: Depot, name: str) -> None:
    for account, row in rows_of(depot, name, odd=True):
        ask_why(depot, account, [row], asked(row.values, ASKED_BY[name]))


@pytest.mark.parametrize("name", IN_BULK)
def test_why_names_the_records_behind_all_rows(depot: Depot, name: str) -> None:
    [account], column = depot.oracle.of(name), IN_BULK[name]
    for value in dict.fromkeys(row.values[column] for row in account.rows):
        some = [row for row in account.rows if row.values[column] == value]
        ask_why(depot, account, some, asked(some[0].values, [column]))


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


@pytest.mark.parametrize("name", SOURCES)
def test_where_says_what_became_of_records_with_plain_keys(depot: Depot, name: str) -> None:
    for record in records_of(depot, name, odd=False):
        ask_where(depot, [record], place_of(record))


@pytest.mark.parametrize("name", SOURCES)
def test_where_says_what_became_of_records_with_odd_keys(depot: Depot, name: str) -> None:
    for record in records_of(depot, name, odd=True):
        ask_where(depot, [record], place_of(record))


@pytest.mark.parametrize("name", SOURCES)
def test_where_follows_all_records_that_share_a_key(depot: Depot, name: str) -> None:
    shared: dict[str, list[Record]] = {}
    for record in source_records(depot, name):
        if record.has_key:
            shared.setdefault(record.key, []).append(record)
    several = [records for records in shared.values() if len(records) > 1]
    assert shared
    chosen = several if FULL else every_nth(several)
    for records in chosen or list(shared.values())[:EACH]:
        ask_where(depot, records, key_of(records[0]))


def key_of(record: Record) -> dict[str, str]:
    names = KEYS[record.place.input]
    if len(names) == 1:
        return {names[0]: record.key}
    return asked(json.loads(record.key), names)


@pytest.mark.parametrize("name", ["notices"])
def test_where_knows_that_a_run_met_a_record_whose_row_was_there_already(
    depot: Depot, name: str
) -> None:
    second = depot.accounts["notice_log"]
    brought = {place for row in second.published or () for place in row.behind}
    known = [place for row in second.rows for place in row.behind if place not in brought]
    assert known
    for place in every_nth(known):
        found = depot.project.where(name, place_of(depot.oracle.tables[name].by_place[place]))
        notes = [note for one in found.became for note in one.notes]
        unmet = [note for note in notes if "did not read the record" in note]
        # The first run, whose rows are in the version too, could not read what came later.
        depot.compared.same(f"where: {place}", int(place.file.endswith("late.jsonl")), len(unmet))


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_was_met_by_the_records_that_reached_the_join(depot: Depot, name: str) -> None:
    for record in source_records(depot, name):
        ask_where(depot, [record], asked(record.values, KEYS[name]))
