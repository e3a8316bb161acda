"""What must come of the rest: windows, groups, a union, a working set, appended and partitioned."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from tests.oracle.account import Account, Sub, Unit, group_text
from tests.oracle.raw import Table
from tests.oracle.reading import Tables, above, admit, by, depots, read

# ---- scans ----------------------------------------------------------------------------


def scan_trail(tables: Tables) -> Account:
    account = Account("scan_trail", ("scans",), "70_drop", key=("tag",))
    units = admit(tables, account, "scans")
    kinds = ("IN", "OUT", "LOAD", "SORT")
    account.expect(
        units,
        "10_expect",
        "kind_known",
        ("kind IN ('IN', 'OUT', 'LOAD', 'SORT')", "kind"),
        lambda v: None if v["kind"] is None else v["kind"] in kinds,
    )
    met = account.look_up(units, "maybe_depot", "depot", depots(tables), "keep")
    account.filter(units, "by_day", lambda v: v["minute"] < 1400)
    alive = [unit for unit in units if unit.ended is None]
    for unit in alive:
        found = met[id(unit)]
        unit.values["city"] = found[0].values["city"] if found else None
    for trail in by(alive, "parcel_id").values():
        trail.sort(key=lambda u: (u.values["minute"], u.values["tag"]))
        for number, unit in enumerate(trail):
            before = trail[number - 1].values["minute"] if number else None
            unit.values |= {"nth": number + 1, "before": before}
    for same in by(alive, "parcel_id", "city").values():
        kept, *others = sorted(same, key=lambda unit: unit.key)
        assert all(other.key != kept.key for other in others), "either of them could stay"
        account.filter(others, "once_a_city", lambda _: False)
    names = ("parcel_id", "seq", "tag", "depot", "kind", "minute", "city", "nth", "before")
    account.passed(units, names)
    account.settle()
    return account


def depot_scans(tables: Tables) -> Account:
    account = Account("depot_scans", ("scans",), "", key=("depot", "kind"))
    units = admit(tables, account, "scans")
    account.filter(units, "no_sorting", lambda v: v["kind"] != "SORT")

    def made(rows: list[dict[str, Any]]) -> dict[str, Any]:
        return {"scans": len(rows), "earliest": min(row["minute"] for row in rows)}

    groups = account.grouped(units, "20_groupBy", ("depot", "kind"), made)
    account.passed(groups, ("depot", "kind", "scans", "earliest"), level=1)
    account.settle("AGGREGATED", "20_groupBy")
    return account


# ---- a union ----------------------------------------------------------------------------


def weights(tables: Tables, clean: Account) -> Account:
    account = Account("weights", ("clean_parcels", "returns"), "light", key=("tag",))
    sent = read(account, clean)
    for unit in sent:
        unit.values["day"] = unit.values["sent_on"]
    units = sent + admit(tables, account, "returns")
    account.filter(units, "light", lambda v: v["weight"] < 4)
    account.passed(units, ("tag", "weight", "day"))
    account.settle()
    return account


# ---- a working set ------------------------------------------------------------------------


def close(tables: Tables) -> Account:
    account = Account("close", ("movements", "adjustments"), "90_output")
    factors = {r.values["code"]: [r] for r in tables["accounts"].records}
    units = admit(tables, account, "movements")
    account.expect(
        units,
        "small",
        "quantity_small",
        ("quantity < 1000", "quantity"),
        lambda v: None if v["quantity"] is None else v["quantity"] < 1000,
    )
    met = account.look_up(units, "20_update", "account", lambda code: factors.get(code, []), "keep")
    for unit in (unit for unit in units if unit.ended is None):
        for row in met[id(unit)]:
            unit.values["value"] = unit.values["quantity"] * row.values["factor"]
        if above(unit.values["value"], 150):
            unit.values["note"] = "LARGE"
    account.filter(units, "no_negatives", lambda v: v["quantity"] >= 0)
    account.subs.append(sub := regions(account, units))
    appended = admit(tables, account, "adjustments")
    account.filter(appended, "adjusted.20_filter", lambda v: v["value"] != 0)
    names = ("ref", "line", "tag", "account", "region", "quantity", "value", "note", "lines")
    for unit in [*units, *appended, *sub.units]:
        unit.values = dict.fromkeys(names) | unit.values
    for unit in appended:
        unit.values["note"] = "ADJUSTED"
    account.passed([*units, *appended], names)
    account.passed(sub.units, names, level=1)
    account.settle()
    return account


def regions(account: Account, units: Iterable[Unit]) -> Sub:
    """Rows that are added; those they are made from stay."""
    sub = Sub("by_region", "row")
    alive = [unit for unit in units if unit.ended is None]
    for (region,), own in by(alive, "region").items():
        values = [u.values["value"] for u in own if u.values["value"] is not None]
        made = {"region": region, "value": sum(values) if values else None, "lines": len(own)}
        behind = frozenset().union(*(unit.behind for unit in own))
        text = group_text({"region": region})
        sub.units.append(Unit(text, made, behind))
        account.groups += [("by_region", text, u.key, p) for u in own for p in u.behind]
    return sub


# ---- appended and partitioned -------------------------------------------------------------


def notice_log(tables: Tables, today: date) -> Account:
    account = Account("notice_log", ("notices",), "30_select", key=("tag",))
    units = admit(tables, account, "notices")
    account.filter(units, "no_noise", lambda v: above(7, v["level"]))
    for unit in units:
        unit.values["logged_on"] = today
    account.passed(units, ("tag", "notice_id", "subject", "level", "logged_on"))
    account.settle()
    return account


def depot_rounds(rounds: Table, day: date) -> Account:
    account = Account("depot_rounds", ("rounds",), "", partition=f"d:{day}", key=("day", "depot"))
    units = account.admit(rounds.records, rounds.blank_lines)
    account.expect(
        units,
        "0_expect",
        "in_its_partition",
        (f"`day` <=> DATE '{day}'", "day"),
        lambda v: v["day"] == day,
        code="WRONG_PARTITION",
        plain=False,
    )
    children = account.multiplied(
        units, "each_stop", lambda u: [{"stop": stop} for stop in u.values["stops"] or [None]]
    )

    def made(rows: list[dict[str, Any]]) -> dict[str, Any]:
        stops = [row["stop"] for row in rows if row["stop"] is not None]
        found = {"stops": len(stops), "visits": len(rows)}
        return found | {"longest": max(stops, default=None)}

    groups = account.grouped(children, "20_groupBy", ("day", "depot"), made)
    account.passed(groups, ("day", "depot", "stops", "visits", "longest"), level=2)
    account.settle("EXPLODED", "each_stop")
    return account
