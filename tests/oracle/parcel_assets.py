"""What must come of the parcels: a join, groups that fail, an expanding join, an explode."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.oracle.account import Account, Unit
from tests.oracle.raw import Record
from tests.oracle.reading import Tables, above, admit, depots, read


def clean_parcels(tables: Tables) -> Account:
    account = Account("clean_parcels", ("parcels",), "70_drop", key=("parcel_id",))
    units = admit(tables, account, "parcels")
    account.expect(
        units,
        "10_expect",
        "weight_positive",
        ("weight > 0", "weight"),
        lambda v: above(v["weight"], 0),
        code="NEGATIVE_WEIGHT",
    )
    account.expect(
        units,
        "20_expect",
        "declared_not_negative",
        ("declared >= 0 OR declared IS NULL", "declared"),
        lambda v: v["declared"] is None or v["declared"] >= 0,
    )
    account.filter(units, "no_tests", lambda v: v["service"] != "TEST")
    said = "a row of depots with depot = code"
    met = account.look_up(units, "known_depot", "depot", depots(tables), "error", on=said)
    for unit in units:
        if unit.ended is None:
            [depot] = met[id(unit)]
            unit.values |= {n: depot.values[n] for n in ("city", "zone")}
            unit.values["grams"] = int(unit.values["weight"] * 1000)
            unit.values["sent_on"] = unit.values["day"]
    names = ("parcel_id", "tag", "depot", "service", "weight", "sent_on", "declared", "codes")
    account.passed(units, (*names, "city", "zone", "grams"))
    account.settle()
    return account


def zone_days(clean: Account) -> Account:
    account = Account("zone_days", ("clean_parcels",), "today", key=("zone", "sent_on"))

    def made(rows: list[dict[str, Any]]) -> dict[str, Any]:
        grams = sum(row["grams"] for row in rows)
        heaviest = max(row["weight"] for row in rows)
        mean = {"mean": grams // len(rows)}
        return {"parcels": len(rows), "grams": grams, "heaviest": heaviest} | mean

    units = read(account, clean)
    groups = account.grouped(units, "10_groupBy", ("zone", "sent_on"), made)
    account.expect(
        groups,
        "20_expect",
        "even_load",
        ("grams % 7 <> 3", "grams"),
        lambda v: v["grams"] % 7 != 3,
        kind="validation_error",
    )
    account.filter(groups, "today", lambda v: v["grams"] % 5 != 1)
    names = ("zone", "sent_on", "parcels", "grams", "heaviest", "mean")
    account.passed(groups, names, level=1)
    account.settle("AGGREGATED", "10_groupBy")
    return account


def offers(tables: Tables, clean: Account) -> Account:
    account = Account("offers", ("clean_parcels",), "")
    by_zone: dict[str, list[Record]] = defaultdict(list)
    for record in tables["tariffs"].records:
        by_zone[record.values["zone"]].append(record)
    for rows in by_zone.values():  # children are numbered by what they met, as JSON
        rows.sort(key=lambda r: f'{{"offer":"{r.values["offer"]}","rate":{r.values["rate"]}}}')
    units = read(account, clean)
    met = account.look_up(units, "each_offer", "zone", lambda zone: by_zone.get(zone, []), "filter")

    def made(unit: Unit) -> list[dict[str, Any]]:
        names = ("offer", "rate")
        return [{name: row.values[name] for name in names} for row in met[id(unit)]]

    children = account.multiplied(units, "each_offer", made)
    account.expect(
        children,
        "30_expect",
        "affordable",
        ("rate < 70", "rate"),
        lambda v: v["rate"] < 70,
        code="TOO_DEAR",
        level=1,
    )
    account.filter(children, "gold", lambda v: v["offer"] != "gold" or v["grams"] > 1000)
    for child in children:
        child.values["price"] = child.values["grams"] * child.values["rate"]
    names = ("zone", "parcel_id", "tag", "grams", "offer", "rate", "price")
    account.passed(children, names, level=1)
    account.settle("EXPLODED", "each_offer")
    return account


def labels(tables: Tables) -> Account:
    account = Account("labels", ("parcels",), "")
    units = admit(tables, account, "parcels")
    account.expect(
        units,
        "10_expect",
        "declared_known",
        ("declared IS NOT NULL", "declared"),
        lambda v: v["declared"] is not None,
    )
    account.filter(units, "each_code.empty", lambda v: bool(v["codes"]))
    children = account.multiplied(
        units, "each_code", lambda unit: [{"label": code} for code in unit.values["codes"]]
    )
    account.expect(
        children,
        "30_expect",
        "label_allowed",
        ("label <> 'BAD'", "label"),
        lambda v: None if v["label"] is None else v["label"] != "BAD",
        level=1,
    )
    account.filter(children, "no_xl", lambda v: v["label"] != "XL")
    account.passed(children, ("parcel_id", "tag", "label", "declared"), level=1)
    account.settle("EXPLODED", "each_code")
    return account
