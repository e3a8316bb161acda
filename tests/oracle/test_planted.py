"""An oracle is trusted only when a difference fails it: small ones, planted in what it expects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from tests.oracle import compare
from tests.oracle.account import Account
from tests.oracle.compare import Compared, Different
from tests.oracle.conftest import Depot
from tests.oracle.found import Found
from tests.oracle.test_walks import ASKED_BY, ask_why, asked, place_of, same_walk
from tests.oracle.walks import expected_where, found_where


@dataclass(frozen=True)
class Plant:
    asset: str
    check: Callable[[Compared, Account, Found], None]
    plant: Callable[[Account], object]


def _swap_fate(account: Account) -> None:
    """A record that was left out is said to have passed, with the sums to match."""
    place = next(place for place, (fate, _) in account.fates.items() if fate == "FILTERED")
    account.fates[place] = ("PASSED", "")


def _move_to_another_group(account: Account) -> None:
    step, group, key, place = account.groups[0]
    other = next(g for _, g, _, _ in account.groups if g != group)
    account.groups[0] = (step, other, key, place)


def _swap_keys(account: Account) -> None:
    """Two filtered records of different steps change places: all counts stay."""
    first = account.filtered[0]
    number, second = next((n, f) for n, f in enumerate(account.filtered) if f[0] != first[0])
    account.filtered[0] = (first[0], second[1], second[2])
    account.filtered[number] = (second[0], first[1], first[2])


def _other_rule(account: Account) -> None:
    letter, behind = account.letters[0]
    other = next(one.rule for one, _ in account.letters if one.rule != letter.rule)
    account.letters[0] = (letter._replace(rule=other), behind)


def _other_actual(account: Account) -> None:
    letter, behind = account.letters[-1]
    account.letters[-1] = (letter._replace(actual=letter.actual + "0"), behind)


def _other_value(account: Account) -> None:
    row = account.rows[3]
    account.rows[3] = replace(row, values={**row.values, "grams": row.values["grams"] + 1})


def _rows_change_keys(account: Account) -> None:
    first, second = account.rows[1], account.rows[2]
    account.rows[1], account.rows[2] = (
        replace(first, key=second.key),
        replace(second, key=first.key),
    )


def sub_ledgers(compared: Compared, account: Account, found: Found) -> None:
    compared.same("sub-ledgers", account.sub_ledgers(), found.sub_ledgers())


PLANTS = {
    "a filtered record is lost": Plant("weights", compare.fates, lambda a: a.filtered.pop()),
    "a filtered record is doubled": Plant(
        "weights", compare.fates, lambda a: a.filtered.append(a.filtered[0])
    ),
    "a fate is another": Plant("clean_parcels", compare.fates, _swap_fate),
    "two keys change places": Plant("scan_trail", compare.fates, _swap_keys),
    "a key is in another group": Plant("zone_days", compare.fates, _move_to_another_group),
    "a key of a working set is in another group": Plant(
        "close", compare.fates, _move_to_another_group
    ),
    "a child is lost": Plant("offers", compare.fates, lambda a: a.children.pop()),
    "a record stood at the door": Plant(
        "depot_scans", compare.door, lambda a: a.records.append(a.records[0])
    ),
    "a rejection is lost": Plant("zone_days", compare.rejections, lambda a: a.letters.pop()),
    "a rejection has another rule": Plant("clean_parcels", compare.rejections, _other_rule),
    "a rejection has another value": Plant("close", compare.rejections, _other_actual),
    "a row is lost": Plant("zone_days", compare.rows, lambda a: a.rows.pop()),
    "a row is there twice": Plant("offers", compare.rows, lambda a: a.rows.append(a.rows[0])),
    "a row has another value": Plant("clean_parcels", compare.rows, _other_value),
    "two rows change keys": Plant("weights", compare.rows, _rows_change_keys),
    "a group is lost": Plant("depot_scans", sub_ledgers, lambda a: a.subs[0].units.pop()),
    "a child was filtered": Plant(
        "offers", sub_ledgers, lambda a: setattr(a.subs[0].units[0], "ended", "FILTERED")
    ),
}


def copied(account: Account) -> Account:
    """So far that a plant changes nothing for other tests."""
    lists = ("records", "letters", "filtered", "groups", "children", "rows")
    subs = [replace(sub, units=[replace(unit) for unit in sub.units]) for sub in account.subs]
    return replace(
        account,
        **{name: list(getattr(account, name)) for name in lists},
        fates=dict(account.fates),
        subs=subs,
    )


@pytest.mark.parametrize("name", PLANTS)
def test_a_difference_is_found(depot: Depot, name: str) -> None:
    plant = PLANTS[name]
    account, found = copied(depot.accounts[plant.asset]), depot.found[plant.asset]
    compared = Compared()
    plant.check(compared, account, found)
    assert compared.counts.total() > 0
    plant.plant(account)
    with pytest.raises(Different):
        plant.check(compared, account, found)


def test_another_record_behind_a_row_is_found(depot: Depot) -> None:
    for name in ("clean_parcels", "offers", "scan_trail", "depot_scans"):
        account = depot.accounts[name]
        rows = [row for row in account.rows if not row.behind & depot.oracle.odd]
        first, other = rows[0], rows[-1]
        assert first != other
        given = asked(first.values, ASKED_BY[name])
        place, stranger = min(first.behind, key=str), min(other.behind, key=str)
        wrong = replace(first, behind=first.behind - {place} | {stranger})
        ask_why(depot, account, [first], given)
        with pytest.raises(Different):
            ask_why(depot, account, [wrong], given)


def test_another_end_of_a_record_is_found(depot: Depot) -> None:
    records = [
        r
        for r in depot.oracle.tables["parcels"].records
        if r.place not in depot.oracle.odd and not r.faults
    ]
    ended = {depot.accounts["clean_parcels"].fates[r.place][0]: r for r in records}
    assert set(ended) == {"PASSED", "FILTERED", "ERROR"}
    for fate, record in ended.items():
        found = found_where(depot.project.where("parcels", place_of(record), limit=None).became)
        same_walk(depot, "where", expected_where(depot.oracle, "parcels", [record.place]), found)
        for stranger in (r.place for other, r in ended.items() if other != fate):
            with pytest.raises(Different):
                same_walk(
                    depot, "where", expected_where(depot.oracle, "parcels", [stranger]), found
                )
