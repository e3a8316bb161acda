"""A circuit breaker that holds stays open across runs, until somebody closes it."""

from __future__ import annotations

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

tm.source("raw", "data/raw.jsonl", schema="id string, n int", key="id")


@tm.asset(key="id", thresholds=dict(window=2000, breaker=0.5, on_break="hold"))
def held(raw):
    return raw


@tm.asset(key="id", thresholds=dict(window=2000, breaker=0.5))
def tried_again(raw):
    return raw
"""


def test_an_open_breaker_stops_the_asset_until_it_is_closed(homes: Homes) -> None:
    home = homes.make(Home, "breaker").pipeline(PIPELINE)
    bad = [{"id": str(n), "n": "many"} for n in range(1500)]
    home.data("raw.jsonl", *bad)
    first = home.tallyman("run", "held", "--run-id", "first")
    assert (first.code, first.json["assets"][0]["error"]["code"]) == (3, "structural_error")
    [listed] = home.ok("breakers")
    assert (listed["asset"], listed["run_id"]) == ("held", "first")
    assert "1,500 of the first 1,500 records" in listed["reason"]

    home.data("raw.jsonl", {"id": "1", "n": 1})
    again = home.tallyman("run", "held")
    assert again.code == 3, str(again)
    assert again.json["error"]["code"] == "breaker_open"
    assert "run first" in again.json["error"]["message"]
    assert len(home.ok("runs")) == 1, "nothing was registered"

    assert home.tallyman("breakers", "close", "hled").code != 0
    home.ok("breakers", "close", "held", "--reason", "a new file came")
    assert home.ok("breakers") == []
    entry = home.ok("audit")[0]
    assert (entry["event_type"], entry["resource"]) == ("breaker.closed", "held")
    home.ok("run", "held")
    assert home.tallyman("breakers", "close", "held").code != 0

    # Without `hold` the next run tries again.
    home.data("raw.jsonl", *bad)
    assert home.tallyman("run", "tried_again").code == 3
    home.data("raw.jsonl", {"id": "1", "n": 1})
    home.ok("run", "tried_again")
