"""A replay of one partition leaves the others alone; records of several assets need a name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from tests.rejections.conftest import replay, told
from tests.world.home import Home

ONE, TWO = "2025-01-01", "2025-01-02"
PIPELINE = """\
import tallyman as tm

days = tm.daily("day", start="2025-01-01")
raw = tm.source(
    "raw", path="data/{partition}/raw.jsonl", format="json", key="id",
    schema="id string, n int, day date",
)


@tm.asset(key="id", partitioned_by=days, thresholds="absolute=0,percentage=1")
def numbers(raw):
    return raw.expect("positive", "n > 0")


@tm.asset(key="id", partitioned_by=days, thresholds="absolute=0,percentage=1")
def even(numbers):
    return numbers.expect("even", "n % 2 = 0").dropDuplicates("n")
"""


def test_one_partition_at_a_time(new_home: Callable[[], Home]) -> None:
    home = new_home().pipeline(PIPELINE)
    for day in (ONE, TWO):
        rows = [{"id": f"{day[-1]}{abs(n)}", "n": n, "day": day} for n in (-1, 2, 3)]
        home.data(f"{day}/raw.jsonl", *rows)
    first = home.ok("backfill", "--from", ONE, "--to", TWO)["run_id"]
    assert home.rows("numbers") == [
        ("12", 2, date(2025, 1, 1)),
        ("13", 3, date(2025, 1, 1)),
        ("22", 2, date(2025, 1, 2)),
        ("23", 3, date(2025, 1, 2)),
    ]
    lines = f'{{"id": "11", "n": 4, "day": "{ONE}"}}\n'
    (home.path / "fix.jsonl").write_text(lines)
    refused = home.tallyman("rejections", "replay", first, "--with", "fix.jsonl")
    assert refused.code == 2
    assert "--asset: even, numbers" in refused.json["error"]["message"]

    done = replay(home, first, "--asset", "numbers", lines=lines)
    assert told(done) == (1, 1, 0)
    assert [o["asset"] for o in done["outcomes"]] == [f"numbers[d:{ONE}]"]
    assert ("11", 4, date(2025, 1, 1)) in home.rows("numbers")
    assert len(home.rows("numbers")) == 5
    commands = [row["command"] for row in done["stale"]]
    assert commands == [f"tallyman run even --partition d:{ONE}"]
    assert len(home.rows("even")) == 2

    # A correction of what another asset read: that one combines records, its partition is replaced.
    odd = replay(home, first, "--asset", "even", lines=f'{{"id":"23","n":8,"day":"{TWO}"}}\n')
    assert (told(odd), odd["outcomes"][0]["mode"]) == ((1, 1, 0), "whole")
    assert home.rows("even") == [
        ("12", 2, date(2025, 1, 1)),
        ("22", 2, date(2025, 1, 2)),
        ("23", 8, date(2025, 1, 2)),
    ]
    # What was stale is made again, of the rows that joined too.
    home.ok("run", "even", "--partition", ONE)
    assert ("11", 4, date(2025, 1, 1)) in home.rows("even")
    assert home.project.stale() == []
