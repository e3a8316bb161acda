"""Random rows, and what they are looked up in and added to them: every kind of value that bites."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

SCHEMA = (
    "id string, n int, d decimal(12,2), s string, t date, ts timestamp, b boolean, x double, "
    "a array<int>"
)
REFERENCE = "k string, f int, w decimal(6,3), label string"
MORE = "pid string, m int, e decimal(10,1), g string"


def rows_of(dice: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Rows of the input: NULLs, NaN, zeros of both signs, microseconds, and equal values."""
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def row(number: int) -> tuple[Any, ...]:
        values = (
            dice.choice([0, 1, 2, 3, 5, 50]),
            Decimal(dice.choice(["0.00", "10.50", "-3.25", "99.99", "7.10"])),
            dice.choice(["s0", "s1", "s2", "S5", "", "p3"]),
            date(2026, dice.randint(1, 6), 28),
            start + timedelta(hours=dice.randint(-9, 9), microseconds=dice.randint(0, 3)),
            dice.choice([True, False]),
            dice.choice([0.0, -0.0, 1.5, float("nan"), -2.25, float("inf")]),
            dice.choice([[], [1], [2, None], [1, 2]]),
        )
        return (f"r{number:02d}", *(None if dice.random() < 0.15 else v for v in values))

    return [row(number) for number in range(count)]


REFERENCES = [("s0", 1, Decimal("1.250"), "zero"), ("s1", 4, Decimal("0.500"), None)]
REFERENCES += [("S5", None, Decimal("2.000"), "five"), ("p3", 9, None, "p"), (None, 3, None, "x")]
ADDED = [(f"p{n}", n % 3, Decimal(n) / 2, f"s{n % 2}" if n else None) for n in range(6)]
