"""The raw files of a depot: parcels, scans, returns and more, every line given by a formula.

A record is good unless its number says otherwise. Divisors are primes, so that faults meet: a line
that cannot be parsed may repeat a key, a record without a key may be too heavy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

DAYS = tuple(date(2026, 3, 1) + timedelta(days=n) for n in range(3))
CODES = ("FRAGILE", "COLD", "HEAVY", "BAD", "XL")
SERVICES = ("STD", "EXP", "STD", "TEST", "EXP")
KINDS = ("IN", "OUT", "LOAD", "SORT")
REGIONS = ("north", "south", "east", None)
ZONES = ("N", "S", "E", "W", "N", "S", "E", "W", "N", "S", "", "")


def sizes(total: int) -> dict[str, int]:
    """How many records each source has; together they are `total`."""
    shares = {"parcels": 40, "scans": 25, "returns": 8, "movements": 8, "adjustments": 2}
    found = {name: total * share // 100 for name, share in shares.items()}
    found |= {"notices": total * 5 // 100, "late_notices": total * 2 // 100}
    found |= {"depots": len(ZONES), "tariffs": len(tariffs()), "accounts": len(accounts())}
    return found | {"rounds": total - sum(found.values())}


def write(home: Path, total: int) -> None:
    """All but the notices that come later."""
    wanted = sizes(total)
    half = wanted["parcels"] // 2
    _lines(home / "data/parcels/a.jsonl", map(parcel, range(half)), blank_every=500)
    _lines(home / "data/parcels/b.jsonl", map(parcel, range(half, wanted["parcels"])))
    head = "parcel_id,seq,tag,depot,kind,minute"
    _lines(home / "data/scans.csv", (head, *map(scan, range(wanted["scans"]))), blank_every=400)
    third = wanted["returns"] // 3
    _parquet(home / "data/returns/one.parquet", range(third))
    _parquet(home / "data/returns/two.parquet", range(third, wanted["returns"]))
    head = "ref,line,tag,account,region,quantity,value,note"
    _lines(home / "data/movements.csv", (head, *map(movement, range(wanted["movements"]))))
    _lines(home / "data/adjustments.jsonl", map(adjustment, range(wanted["adjustments"])))
    _lines(home / "data/notices/early.jsonl", map(notice, range(wanted["notices"])))
    for number, day in enumerate(DAYS):
        own = range(number, wanted["rounds"], len(DAYS))
        _lines(home / f"data/rounds/{day}/rounds.jsonl", (a_round(i, day) for i in own))
    depots = (f"D{n + 1:02d},City {n % 6},{zone}" for n, zone in enumerate(ZONES))
    _lines(home / "data/depots.csv", ("code,city,zone", *depots))
    _lines(home / "data/accounts.csv", ("code,factor", *accounts()))
    rates = pa.array([Decimal(rate) for _, _, rate in tariffs()], pa.decimal128(6, 2))
    named = {"zone": [t[0] for t in tariffs()], "offer": [t[1] for t in tariffs()], "rate": rates}
    pq.write_table(pa.table(named), home / "data/tariffs.parquet")


def write_late(home: Path, total: int) -> None:
    """Notices that are appended to the input after the first run."""
    wanted = sizes(total)
    numbers = range(wanted["notices"], wanted["notices"] + wanted["late_notices"])
    _lines(home / "data/notices/late.jsonl", map(notice, numbers))


def tariffs() -> list[tuple[str, str, str]]:
    """Three offers in one zone, two, one, and none."""
    return [
        ("N", "slow", "1.10"),
        ("N", "fast", "2.75"),
        ("N", "gold", "60.00"),
        ("S", "slow", "1.35"),
        ("E", "slow", "0.95"),
        ("E", "gold", "75.50"),
    ]


def accounts() -> list[str]:
    return [f"{100 * n},{n}.{n}5" for n in range(1, 6)]


def _lines(path: Path, lines: Iterable[str], blank_every: int = 0) -> None:
    """Blank lines are no records, but they are lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(lines, 1):
            file.write(line + "\n")
            if blank_every and number % blank_every == 0:
                file.write("\n")


# ---- parcels: JSON, one key column ------------------------------------------------------------


def parcel(i: int) -> str:
    row: dict[str, Any] = {
        "parcel_id": f"P{i:06d}",
        "tag": f"T{i:06d}",
        "depot": f"D{i * 7 % 12 + 1:02d}",
        "service": SERVICES[i % 5],
        "weight": float(f"{(150 + i * 37 % 4850) / 1000:.3f}"),
        "day": str(date(2026, 1, 1) + timedelta(days=i % 7)),
        "declared": i * 13 % 900,
        "codes": [CODES[(i + n) * 3 % 5] for n in range(i % 4)],
    }
    row.update(_parcel_faults(i))
    missing = [name for name, value in row.items() if value == "missing"]
    text = json.dumps({name: value for name, value in row.items() if name not in missing})
    if i % 97 == 5:  # the line ends in the middle
        return text[: 12 if i % 5 == 1 else 60]
    return text


def _parcel_faults(i: int) -> Iterator[tuple[str, Any]]:
    if i % 401 in (19, 20):  # three records share a key
        yield "parcel_id", f"P{i - i % 401 + 18:06d}"
    if i % 409 in (21, 22):
        yield "parcel_id", None if i % 409 == 21 else "missing"
    faults: list[tuple[int, int, str, Any]] = [
        (101, 7, "weight", "heavy"),
        (103, 9, "weight", None),
        (127, 10, "weight", "missing"),
        (83, 13, "weight", -1.25),
        (31, 3, "day", None),
        (107, 2, "day", "soon"),
        (109, 4, "day", "2026-02-30"),
        (29, 1, "declared", None),
        (89, 11, "declared", "many"),
        (71, 23, "declared", "few"),
        (113, 6, "declared", -5),
        (79, 15, "depot", "ZZ"),
        (73, 17, "depot", None),
        (59, 7, "codes", []),
        (53, 8, "codes", None),
        (47, 2, "codes", ["COLD", None]),
        (131, 12, "codes", "FRAGILE"),
        (137, 14, "codes", ["XL", "XL", "COLD"]),
    ]
    for divisor, rest, name, value in faults:
        if i % divisor == rest:
            yield name, value
    if i % 71 == 23:  # two faults in one record
        yield "weight", "heavy"


# ---- scans: CSV, two key columns --------------------------------------------------------------


def scan(i: int) -> str:
    row = {
        "parcel_id": f"P{i // 3:06d}",
        "seq": str(i % 3 + 1),
        "tag": f"S{i:06d}",
        "depot": f"D{i * 5 % 12 + 1:02d}",
        "kind": KINDS[i % 4],
        "minute": str(i * 7 % 1440),
    }
    if i % 251 == 13:  # the key of the scan before
        row["parcel_id"], row["seq"] = f"P{(i - 1) // 3:06d}", str((i - 1) % 3 + 1)
    faults = [
        (257, 3, "parcel_id", ""),
        (263, 5, "seq", ""),
        (269, 7, "parcel_id", ""),
        (269, 7, "seq", ""),
        (97, 8, "seq", "x"),
        (89, 9, "minute", "noon"),
        (83, 10, "minute", ""),
        (59, 14, "kind", "LOST"),
        (47, 15, "depot", "ZZ"),
        (61, 16, "depot", ""),
    ]
    row.update({name: value for divisor, rest, name, value in faults if i % divisor == rest})
    cells = list(row.values())
    if i % 101 == 11:
        cells = cells[:3]
    if i % 103 == 12 and i % 59 != 14:
        cells.append("more")
    return ",".join(cells)


# ---- returns: Parquet, two key columns ------------------------------------------------------


def _parquet(path: Path, numbers: range) -> None:
    rows = list(map(a_return, numbers))
    kinds = {"number": pa.int32(), "weight": pa.decimal128(10, 3), "day": pa.date32()}
    names = ("depot", "number", "tag", "weight", "day")
    columns = {n: pa.array([row[n] for row in rows], kinds.get(n, pa.string())) for n in names}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def a_return(i: int) -> dict[str, Any]:
    own = i - 1 if i % 127 == 7 else i  # the key of the return before
    return {
        "depot": None if i % 131 == 3 else f"D{own % 12 + 1:02d}",
        "number": None if i % 137 == 5 else own // 12,
        "tag": f"R{i:06d}",
        "weight": None if i % 31 == 9 else Decimal(200 + i * 53 % 4700).scaleb(-3),
        "day": date(2026, 1, 1) + timedelta(days=i % 9),
    }


# ---- movements and adjustments: a working set -------------------------------------------------


def movement(i: int) -> str:
    row = {
        "ref": f"M{i // 2:06d}",
        "line": str(i % 2 + 1),
        "tag": f"V{i:06d}",
        "account": f"{100 * (i % 6 + 1)}",  # the sixth account is not known
        "region": REGIONS[i * 3 % 4] or "",
        "quantity": str(i * 11 % 140 - 12),
        "value": "" if i % 5 else "7.50",
        "note": "",
    }
    faults = [
        (83, 3, "ref", ""),
        (89, 5, "line", ""),
        (37, 7, "quantity", "lots"),
        (47, 9, "value", "free"),
        (53, 11, "quantity", "5000"),
        (59, 13, "quantity", ""),
    ]
    row.update({name: value for divisor, rest, name, value in faults if i % divisor == rest})
    return ",".join(row.values())


def adjustment(i: int) -> str:
    value: object = [12.5, 0, -3.25, 7, "none"][0 if i % 23 else 4] if i % 5 == 0 else i % 4
    row = {
        "id": None if i % 17 == 4 else f"A{i:05d}",
        "tag": f"A{i:06d}",
        "region": REGIONS[i % 4],
        "value": value,
    }
    return json.dumps(row)


# ---- notices and rounds -------------------------------------------------------------------


def notice(i: int) -> str:
    row: dict[str, Any] = {
        "notice_id": None if i % 61 == 4 else f"N{(i - 1 if i % 67 == 6 else i):05d}",
        "tag": f"N{i:06d}",
        "subject": None if i % 37 == 5 else f"subject {i * 7 % (2 * i // 3 + 3)}",
        "level": "high" if i % 29 == 8 else i % 9,
    }
    return json.dumps(row)


def a_round(i: int, day: date) -> str:
    row: dict[str, Any] = {
        "round_id": None if i % 61 == 6 else f"W{(i - 3 if i % 67 == 9 else i):05d}",
        "tag": f"W{i:06d}",
        "day": str(day),
        "depot": f"D{i * 5 % 11 + 1:02d}" if i % 23 else None,
        "stops": [(i + n) * 7 % 45 for n in range(i % 5)],
    }
    if i % 17 == 3:
        row["day"] = str(day + timedelta(days=1))
    if i % 41 == 5:
        row["day"] = None
    if i % 43 == 7:
        row["stops"] = "many"
    if i % 47 == 8:
        row["stops"] = None
    return json.dumps(row)
