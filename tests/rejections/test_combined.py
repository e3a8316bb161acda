"""Where a plan combines records, all are evaluated with the corrected ones in their place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from tallyman.cli.start.demo_data import AIRLINES, write_airline
from tests.rejections.conftest import balance, ledger, read_json, replay, states, told
from tests.world.home import Home, Row

RECORDS = 5_300
"""Ten of them are broken: records 0, 530, 1060, …, in five ways."""


def key(error: int) -> str:
    return f"SEG-{530 * error:07d}"


def corrected(error: int, price: str = "100.01", day: str = "2024-01-20") -> dict[str, Any]:
    return {
        "segment_id": key(error),
        "flight_date": day,
        "status": "FLOWN",
        "airline": "LH",
        "ticket_price": float(price),
        "distance_km": 1000,
    }


def lines(*records: Mapping[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def revenue(home: Home, *instead: Mapping[str, Any]) -> list[Row]:
    """Worked out from the files, with these records in the place of those of the same key."""
    records = {str(record["segment_id"]): record for record in instead}
    for file in home.path.glob("data/bookings/*/*.jsonl"):
        for line in file.read_text().splitlines():
            try:
                record = json.loads(line, parse_float=Decimal)
            except ValueError:
                continue
            records.setdefault(record["segment_id"], record)
    days: dict[date, tuple[Decimal, int]] = {}
    for record in records.values():
        price = record["ticket_price"]
        if isinstance(price, str) or price <= 0 or record["distance_km"] < 0:
            continue
        if record["status"] != "FLOWN" or record["airline"] not in AIRLINES:
            continue
        if record["flight_date"] is not None:
            day = date.fromisoformat(record["flight_date"])
            total, count = days.get(day, (Decimal(0), 0))
            exact = Decimal(str(price)).quantize(Decimal("0.01"))
            days[day] = (total + exact, count + 1)
    return sorted((day, total, count) for day, (total, count) in days.items())


def test_daily_revenue_contains_the_corrected_segments(new_home: Callable[[], Home]) -> None:
    home = new_home()
    settings = (home.path / "tallyman.yaml").read_text()
    write_airline(home.path, RECORDS)
    (home.path / "tallyman.yaml").write_text(settings)
    made = home.ok("run", "--evidence", "digest")
    first = made["run_id"]
    before = read_json(home.path / made["folder"] / "daily_revenue" / "ledger.json")
    assert balance(before) == {"in": 5300, "AGGREGATED": 5226, "FILTERED": 64, "ERROR": 10}
    assert home.rows("daily_revenue") == revenue(home)

    # ---- five of six corrections pass; the four others stay as they were ----
    fixes = [corrected(n, f"{100 + n}.0{n}") for n in (0, 2, 4, 5, 7)]
    still = corrected(9, "-1.00")
    second = replay(home, first, lines=lines(*fixes, still))
    assert told(second) == (6, 5, 1)
    assert second["outcomes"][0]["mode"] == "whole"
    assert [r["sample_error_code"] for r in second["outcomes"][0]["reasons"]] == ["NEGATIVE_PRICE"]
    after = ledger(home, second, "daily_revenue")
    assert balance(after) == {"in": 5300, "AGGREGATED": 5231, "FILTERED": 64, "ERROR": 5}
    assert after["replay_of"] == first
    # The same records at the door: only what became of them differs.
    door = "key_digest"
    assert after["input_accounting"][door] == before["input_accounting"][door]
    assert home.rows("daily_revenue") == revenue(home, *fixes)
    again = second["run"]["run_id"]
    assert home.ok("verify", again, "--exact")["balanced"] is True
    assert set(states(home, first).values()) == {"replayed", "moved"}
    assert states(home, again) == {key(n): "open" for n in (1, 3, 6, 8, 9)}

    # ---- a discarded one stays so, and corrections of before are kept ----
    home.ok("rejections", "discard", again, "--reason", "no such airline", "--where",
            "error_type = 'join_error'")  # fmt: skip
    dates = [corrected(1, "7.77"), corrected(6, "8.88", "2024-02-01")]
    third = replay(home, again, lines=lines(*dates))
    assert told(third) == (2, 2, 0)
    assert home.rows("daily_revenue") == revenue(home, *fixes, *dates)
    last = third["run"]["run_id"]
    assert states(home, last) == {key(3): "discarded", key(8): "discarded", key(9): "open"}

    # ---- nothing has changed since; and what a rollback takes back is open again ----
    assert home.ok("run", "--evidence", "digest")["assets"][0]["status"] == "skipped"
    assert home.rows("daily_revenue") == revenue(home, *fixes, *dates)
    home.ok("rollback", "daily_revenue", "--to", "2")
    assert home.refused("rejections", "replay", last) == "rejections_outdated"
    assert states(home, again)[key(1)] == "open"
    (home.path / "data" / "bookings" / "2024-01-01" / "more.jsonl").write_text("")
    assert home.refused("rejections", "replay", again) == "source_changed"
