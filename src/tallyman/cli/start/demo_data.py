"""The airline demo project: every number in it follows from a formula.

Record i, counted from 0, is one JSON line. Every 530th record is broken in one of five ways,
records 1 to 4 of every 350 are cancelled, all others are flown. Nothing is random, so two machines
write the same bytes.
"""

from datetime import date, timedelta
from pathlib import Path

from tallyman.cli.start.init import YAML

RECORDS = 349_660
BOOKING_DAYS = 10
FLIGHT_DAYS = 32
ERROR_EVERY = 530
FILTER_EVERY = 350

FIRST_BOOKING = date(2024, 1, 1)
FIRST_FLIGHT = date(2024, 1, 15)

AIRLINES = {
    "AA": "American Airlines",
    "AC": "Air Canada",
    "AF": "Air France",
    "AI": "Air India",
    "AY": "Finnair",
    "BA": "British Airways",
    "CX": "Cathay Pacific",
    "DL": "Delta Air Lines",
    "EK": "Emirates",
    "EY": "Etihad Airways",
    "IB": "Iberia",
    "JL": "Japan Airlines",
    "KE": "Korean Air",
    "KL": "KLM",
    "LH": "Lufthansa",
    "LX": "Swiss",
    "NH": "All Nippon Airways",
    "NZ": "Air New Zealand",
    "OS": "Austrian Airlines",
    "QF": "Qantas",
    "QR": "Qatar Airways",
    "SK": "SAS",
    "SQ": "Singapore Airlines",
    "TK": "Turkish Airlines",
    "UA": "United Airlines",
}
UNKNOWN_AIRLINE = "ZZ"

PIPELINE = '''\
"""Daily revenue of flown segments; every booking record is accounted for."""

import tallyman as tm

segments = tm.source(
    "segments",
    path="data/bookings",
    format="json",
    key="segment_id",
    schema="segment_id string, flight_date date not null, status string, airline string, "
    "ticket_price decimal(10,2), distance_km int",
)
airlines = tm.source(
    "airlines",
    path="data/reference/airlines.csv",
    format="csv",
    key="code",
    schema="code string, name string",
)


@tm.asset(key="flight_date")
def daily_revenue(segments: tm.Frame, airlines: tm.Frame) -> tm.Frame:
    return (
        segments.expect("positive_price", "ticket_price > 0", code="NEGATIVE_PRICE")
        .expect("distance_not_negative", "distance_km >= 0")
        .filter("status = 'FLOWN'", reason="not flown", name="flown_status_filter")
        .join(airlines, "airline = code", unmatched="error", name="known_airline")
        .groupBy("flight_date")
        .agg(
            total_revenue="sum(ticket_price)",
            segments="count(*)",
            name="daily_revenue_aggregation",
        )
    )
'''


def write_airline(folder: Path, records: int = RECORDS) -> None:
    """Write the whole project: settings, pipeline, bookings and reference data."""
    _write(folder / "tallyman.yaml", YAML.format(name="airline"))
    _write(folder / "pipelines" / "airline.py", PIPELINE)
    _write(folder / "data" / "reference" / "airlines.csv", _airlines_csv())
    for day in range(BOOKING_DAYS):
        booked = FIRST_BOOKING + timedelta(days=day)
        first, last = _first_of_day(day, records), _first_of_day(day + 1, records)
        lines = "".join([_line(i) + "\n" for i in range(first, last)])
        _write(folder / "data" / "bookings" / booked.isoformat() / "segments.jsonl", lines)


def _first_of_day(day: int, records: int) -> int:
    """Return the smallest i with floor(10 * i / records) = day."""
    return -(-day * records // BOOKING_DAYS)


_CODES = tuple(AIRLINES)
_FLIGHT_DATES = tuple(f'"{FIRST_FLIGHT + timedelta(days=day)}"' for day in range(FLIGHT_DAYS))


def _line(i: int) -> str:
    flight_date = _FLIGHT_DATES[i % FLIGHT_DAYS]
    cents = 10_000 + 37 * i % 50_000
    # Format whole cents: a float prints 123.40 as 123.4 and cannot hold every price exactly.
    price = f"{cents // 100}.{cents % 100:02d}"
    airline = _CODES[i % len(_CODES)]
    if i % ERROR_EVERY == 0:
        return _broken_line(i, flight_date, price, airline)
    status = "CANCELLED" if 1 <= i % FILTER_EVERY <= 4 else "FLOWN"
    return _text(i, flight_date, status, airline, price, 1000)


def _broken_line(i: int, flight_date: str, price: str, airline: str) -> str:
    error = i // ERROR_EVERY
    kind = error % 5
    if kind == 0:
        price = '"NOT_A_NUMBER"'
    elif kind == 1:
        flight_date = "null"
    elif kind == 2:
        price = "-50.00"
    elif kind == 3:
        airline = UNKNOWN_AIRLINE
    # Every tenth error has a second fault: one record, one fate, two rejections.
    distance = -100 if error % 10 == 0 else 1000
    text = _text(i, flight_date, "FLOWN", airline, price, distance)
    return text[: len(text) // 2] if kind == 4 else text


def _text(i: int, flight_date: str, status: str, airline: str, price: str, distance: int) -> str:
    return (
        f'{{"segment_id":"SEG-{i:07d}","flight_date":{flight_date},"status":"{status}",'
        f'"airline":"{airline}","ticket_price":{price},"distance_km":{distance}}}'
    )


def _airlines_csv() -> str:
    return "code,name\n" + "".join(f"{code},{name}\n" for code, name in AIRLINES.items())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
