"""The oracle: what every asset of the depot must come to, from the raw files alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.oracle.account import Account, Row, Sub, Unit, group_text
from tests.oracle.raw import Place, Record, Table, table

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
        self.depots = {record.values["code"]: [record] for record in self.tables["depots"].records}
        clean = self.clean_parcels()
        made = [clean, self.zone_days(clean), self.offers(clean), self.labels(), self.scan_trail()]
        made += [self.depot_scans(), self.weights(clean), self.close(), self.notice_log()]
        made += [self.depot_rounds(day) for day in days]
        self.accounts = {(one.asset, one.partition): one for one in made}
        self.odd = frozenset(self._odd(clean))
        """Records and rows whose key repeats or is NULL, or that were made from such."""

    def _odd(self, clean: Account) -> Iterator[Place]:
        for source in [*self.tables.values(), *self.rounds.values()]:
            counted = Counter(record.key for record in source.records)
            odd = [r.place for r in source.records if not r.has_key or counted[r.key] > 1]
            yield from odd
            if source.name == "parcels":
                rows = [row for row in clean.rows if row.behind & frozenset(odd)]
                yield from (row_place(clean, row) for row in rows)

    def _admit(self, account: Account, *names: str) -> list[Unit]:
        found = []
        for name in names:
            found += account.admit(self.tables[name].records, self.tables[name].blank_lines)
        return found

    def _read(self, account: Account, made: Account) -> list[Unit]:
        """The rows of another asset; one without a key is called after its tag."""
        records = [
            Record(row_place(made, row), key, row.values, has_key=not key.startswith("@"))
            for row in made.rows
            for key in [row.values["parcel_id"] or f"@{row.values['tag']}"]
        ]
        return account.admit(records)

    # ---- parcels --------------------------------------------------------------------------

    def clean_parcels(self) -> Account:
        account = Account("clean_parcels", ("parcels",), "70_drop", key=("parcel_id",))
        units = self._admit(account, "parcels")
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
        met = account.look_up(units, "known_depot", "depot", self._depot, "error", on=said)
        for unit in units:
            if unit.ended is None:
                [depot] = met[id(unit)]
                unit.values |= {n: depot.values[n] for n in ("city", "zone")}
                unit.values["grams"] = int(unit.values["weight"] * 1000)
                unit.values["sent_on"] = unit.values["day"]
        account.passed(
            units,
            ("parcel_id", "tag", "depot", "service", "weight", "sent_on", "declared", "codes")
            + ("city", "zone", "grams"),
        )
        account.settle()
        return account

    def _depot(self, code: str) -> Sequence[Record]:
        return self.depots.get(code, [])

    def zone_days(self, clean: Account) -> Account:
        account = Account("zone_days", ("clean_parcels",), "today", key=("zone", "sent_on"))

        def made(rows: list[dict[str, Any]]) -> dict[str, Any]:
            grams = sum(row["grams"] for row in rows)
            heaviest = max(row["weight"] for row in rows)
            mean = {"mean": grams // len(rows)}
            return {"parcels": len(rows), "grams": grams, "heaviest": heaviest} | mean

        units = self._read(account, clean)
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

    def offers(self, clean: Account) -> Account:
        account = Account("offers", ("clean_parcels",), "")
        by_zone: dict[str, list[Record]] = defaultdict(list)
        for record in self.tables["tariffs"].records:
            by_zone[record.values["zone"]].append(record)
        for rows in by_zone.values():  # children are numbered by what they met, as JSON
            rows.sort(key=lambda r: f'{{"offer":"{r.values["offer"]}","rate":{r.values["rate"]}}}')
        units = self._read(account, clean)
        met = account.look_up(
            units, "each_offer", "zone", lambda zone: by_zone.get(zone, []), "filter"
        )

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

    def labels(self) -> Account:
        account = Account("labels", ("parcels",), "")
        units = self._admit(account, "parcels")
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

    # ---- scans ----------------------------------------------------------------------------

    def scan_trail(self) -> Account:
        account = Account("scan_trail", ("scans",), "70_drop", key=("tag",))
        units = self._admit(account, "scans")
        kinds = ("IN", "OUT", "LOAD", "SORT")
        account.expect(
            units,
            "10_expect",
            "kind_known",
            ("kind IN ('IN', 'OUT', 'LOAD', 'SORT')", "kind"),
            lambda v: None if v["kind"] is None else v["kind"] in kinds,
        )
        met = account.look_up(units, "maybe_depot", "depot", self._depot, "keep")
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

    def depot_scans(self) -> Account:
        account = Account("depot_scans", ("scans",), "", key=("depot", "kind"))
        units = self._admit(account, "scans")
        account.filter(units, "no_sorting", lambda v: v["kind"] != "SORT")

        def made(rows: list[dict[str, Any]]) -> dict[str, Any]:
            return {"scans": len(rows), "earliest": min(row["minute"] for row in rows)}

        groups = account.grouped(units, "20_groupBy", ("depot", "kind"), made)
        account.passed(groups, ("depot", "kind", "scans", "earliest"), level=1)
        account.settle("AGGREGATED", "20_groupBy")
        return account

    # ---- a union ----------------------------------------------------------------------------

    def weights(self, clean: Account) -> Account:
        account = Account("weights", ("clean_parcels", "returns"), "light", key=("tag",))
        sent = self._read(account, clean)
        for unit in sent:
            unit.values["day"] = unit.values["sent_on"]
        units = sent + self._admit(account, "returns")
        account.filter(units, "light", lambda v: v["weight"] < 4)
        account.passed(units, ("tag", "weight", "day"))
        account.settle()
        return account

    # ---- a working set ------------------------------------------------------------------------

    def close(self) -> Account:
        account = Account("close", ("movements", "adjustments"), "")
        factors = {r.values["code"]: [r] for r in self.tables["accounts"].records}
        units = self._admit(account, "movements")
        account.expect(
            units,
            "small",
            "quantity_small",
            ("quantity < 1000", "quantity"),
            lambda v: None if v["quantity"] is None else v["quantity"] < 1000,
        )
        met = account.look_up(
            units, "20_update", "account", lambda code: factors.get(code, []), "keep"
        )
        for unit in (unit for unit in units if unit.ended is None):
            for row in met[id(unit)]:
                unit.values["value"] = unit.values["quantity"] * row.values["factor"]
            if above(unit.values["value"], 150):
                unit.values["note"] = "LARGE"
        account.filter(units, "no_negatives", lambda v: v["quantity"] >= 0)
        account.subs.append(sub := self._regions(account, units))
        appended = self._admit(account, "adjustments")
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

    def _regions(self, account: Account, units: Iterable[Unit]) -> Sub:
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

    def notice_log(self) -> Account:
        account = Account("notice_log", ("notices",), "30_select", key=("tag",))
        units = self._admit(account, "notices")
        account.filter(units, "no_noise", lambda v: above(7, v["level"]))
        for unit in units:
            unit.values["logged_on"] = self.today
        account.passed(units, ("tag", "notice_id", "subject", "level", "logged_on"))
        account.settle()
        return account

    def depot_rounds(self, day: date) -> Account:
        account = Account(
            "depot_rounds", ("rounds",), "", partition=f"d:{day}", key=("day", "depot")
        )
        units = account.admit(self.rounds[day].records, self.rounds[day].blank_lines)
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


def row_place(made: Account, row: Row) -> Place:
    """A row of a dataset, as the assets that read it know it."""
    return Place(made.asset, str(row.values["tag"]), 0)


def appended(before: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """The rows that are new: of each subject the first, if none was there."""
    there = {row.values["subject"] for row in before}
    first: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda row: row.values["tag"]):
        first.setdefault(row.values["subject"], row)
    return [row for subject, row in first.items() if subject not in there]


def logged(rows: Iterable[Row], today: date) -> list[Row]:
    return [replace(row, values={**row.values, "logged_on": today}) for row in rows]


def above(value: Decimal | int | None, limit: Decimal | int | None) -> bool | None:
    return None if value is None or limit is None else value > limit


def by(units: Iterable[Unit], *names: str) -> dict[tuple[Any, ...], list[Unit]]:
    found: dict[tuple[Any, ...], list[Unit]] = defaultdict(list)
    for unit in units:
        found[tuple(unit.values[name] for name in names)].append(unit)
    return found


def repeated(account: Account) -> Counter[str]:
    """Keys that more than one record of the asset's inputs has."""
    counted = Counter(unit.key for unit in account.records)
    return Counter({key: n for key, n in counted.items() if n > 1})
