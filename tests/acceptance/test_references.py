"""A reference has no ledger, but an account: what was read of it, and who found nothing in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

flights = tm.source("flights", "data/flights.csv", format="csv", key="id",
                    schema="id string, tail string, carrier string")
planes = tm.source("planes", "data/planes.csv", format="csv", key="tailnum",
                   schema="tailnum string, seats int")


@tm.asset(key="id")
def seated(flights, planes):
    return flights.join(planes, "tail = tailnum", how="left", name="plane")
"""
SHARE = PIPELINE.replace(', name="plane"', ', max_unmatched="5%", name="plane"')
NUMBER = PIPELINE.replace(', name="plane"', ', max_unmatched=9, name="plane"')
FLIGHTS, PLANES = 400, 120
STEP = {"step": "plane", "name": "planes", "of_records": True}


class Airline(Home):
    """Every tenth flight is by a plane that nobody knows."""

    def flights(self, count: int = FLIGHTS) -> None:
        tails = (f"N{n % PLANES}" if n % 10 else "" for n in range(count))
        lines = [f"f{n},{tail},c{n % 3}" for n, tail in enumerate(tails)]
        self.csv("flights", "id,tail,carrier", *lines)

    def planes(self, count: int = PLANES, *more: str) -> None:
        self.csv("planes", "tailnum,seats", *(f"N{n},{100 + n}" for n in range(count)), *more)

    def csv(self, name: str, *lines: str) -> None:
        (self.path / "data").mkdir(exist_ok=True)
        (self.path / f"data/{name}.csv").write_text("".join(f"{line}\n" for line in lines))

    def stops(self, *words: str, exit_code: int = 3, asset: str = "seated") -> dict[str, Any]:
        """The error of an asset that is not made; readers keep what they have."""
        before = self.heads()
        reply = self.tallyman("run", asset, *words)
        assert reply.code == exit_code, str(reply)
        assert self.heads() == before
        [made] = reply.json["assets"]
        return dict(made["error"])


@pytest.fixture(scope="module")
def new_home(homes: Homes) -> Callable[[], Airline]:
    return lambda: homes.make(Airline, "references").pipeline(PIPELINE)


@pytest.fixture
def home(new_home: Callable[[], Airline]) -> Iterator[Airline]:
    made = new_home()
    made.flights()
    made.planes()
    yield made


def references(made: dict[str, Any]) -> list[dict[str, Any]]:
    return list(made["references"])


def test_a_reference_that_is_empty_or_only_a_header_makes_nothing(home: Airline) -> None:
    home.ok("run")
    for lines in ((), ("tailnum,seats",), ("", "")):
        home.csv("planes", *lines)
        error = home.stops(exit_code=1 if lines == ("", "") else 3)
        if lines != ("", ""):
            assert error["code"] == "empty_input"
            assert error["message"] == "seated: reference 'planes' has no records."
    home.planes()
    assert home.ok("run", "--force")["assets"][0]["rows_out"] == FLIGHTS
