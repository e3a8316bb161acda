"""The same run again, aside: the same rows, rejections, evidence and ledgers; nothing is left."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.reproduce.conftest import (
    OTHER_PARTITIONS,
    aside,
    left,
    shuffled,
    target,
    verdicts,
    write_orders,
)
from tests.world.numbers import NumbersHome

EVERYTHING = ("clean", "totals", "tags", "noted", "states")
BROKEN = ("--thresholds", "absolute=0,percentage=1")


@pytest.fixture(scope="module")
def home(orders: Callable[..., NumbersHome]) -> NumbersHome:
    made = orders()
    made.ok("run", "--run-id", "first", *BROKEN)
    return made


def test_every_kind_of_step_is_reproduced_with_other_files_order_and_partitions(
    home: NumbersHome,
) -> None:
    shuffled(home)
    before = left(home)
    assert before["counts"]["runs"] != [["0"]]
    found = home.ok("reproduce", "first", *OTHER_PARTITIONS)
    assert found["verdict"] == "REPRODUCED"
    assert verdicts(found) == dict.fromkeys(EVERYTHING, "REPRODUCED")
    clean = target(found, "clean")["result"]
    assert clean["fates"]["ERROR"] > 0
    assert clean["fates"]["FILTERED"] > 0
    assert left(home) == before


def test_the_versions_that_were_read_count_and_not_those_of_now(
    orders: Callable[..., NumbersHome],
) -> None:
    home = orders()
    home.ok("run", "clean", "--run-id", "v1", *BROKEN)
    home.ok("run", "totals", "--run-id", "from-v1")
    write_orders(home, first=1000)
    home.ok("run", "clean", "--run-id", "v2", *BROKEN)
    assert home.ok("verify", "inputs", "from-v1")["same"] is True
    # A person reads a line for each target, and where it was kept.
    code, out, _ = home.printed("reproduce", "from-v1", "--keep")
    *_, verdict, where = out.strip().splitlines()
    assert (code, out.split()[:2]) == (0, ["REPRODUCED", "totals"])
    assert verdict.startswith("REPRODUCED   1 of 1 target")
    kept = home.path / where.removeprefix("kept:  ")
    assert aside(home) == [kept.name]
    assert json.loads((kept / "totals" / "ledger.json").read_text())["run_id"] == "from-v1"
    assert list((kept / "totals" / "output").glob("*.parquet"))
    # The run that read the source itself cannot be made again: the source is another one.
    reply = home.tallyman("reproduce", "v1")
    assert (reply.code, reply.json["verdict"]) == (1, "NOT_REPRODUCIBLE")
    assert "Input data has changed: orders" in target(reply.json, "clean")["reasons"][0]


def test_partitions_of_a_backfill_are_reproduced(new_home: Callable[[], NumbersHome]) -> None:
    home = new_home().numbers("2025-01-01", 1, 2, 3).numbers("2025-01-02", 4, 5)
    home.ok("backfill", "+doubled", "--from", "2025-01-01", "--to", "2025-01-02")
    found = home.ok("reproduce", "latest", *OTHER_PARTITIONS)
    assert found["verdict"] == "REPRODUCED"
    assert len(found["targets"]) == 4
    # What one run makes and another reuses is named, and reproduced where it was made.
    home.numbers("2025-01-02", 4, 5, 6)
    home.ok("backfill", "+doubled", "--from", "2025-01-01", "--to", "2025-01-02")
    mixed = verdicts(home.ok("reproduce", "latest"))
    assert sorted(mixed.values()) == ["REPRODUCED"] * 2 + ["REUSED"] * 2
    home.ok("backfill", "+doubled", "--from", "2025-01-01", "--to", "2025-01-02")
    reply = home.tallyman("reproduce", "latest")
    assert (reply.code, reply.json["reasons"]) == (1, ["the run made nothing itself"])


def test_a_halted_run_is_reproduced_with_its_rejections(orders: Callable[..., NumbersHome]) -> None:
    home = orders()
    reply = home.tallyman("run", "+totals", "--run-id", "halted", "--thresholds", "strict")
    assert reply.code == 3
    found = home.ok("reproduce", "halted")
    assert verdicts(found) == {"clean": "REPRODUCED", "totals": "NOT_MADE"}
    assert found["counts"] == {"targets": 2, "reproduced": 1, "not_made": 1}
    assert target(found, "clean")["result"]["status"] == "halted"
    [run] = (home.path / "runs").glob("*_halted")
    [letters, *_] = (run / "clean" / "errors").rglob("*.jsonl")
    text = letters.read_text()
    letters.write_text(text + text.splitlines()[0] + "\n")  # one letter twice is not one letter
    reply = home.tallyman("reproduce", "halted")
    assert (reply.code, reply.json["verdict"]) == (1, "DIFFERENT")
    assert target(reply.json, "clean")["rejections"]["removed"] == 1


def test_a_replay_of_corrected_records_is_reproduced(home: NumbersHome) -> None:
    lines = [{"id": "o005", "kind": "red", "n": 5, "tags": []}]
    corrected = home.path / "corrected.jsonl"
    corrected.write_text("".join(json.dumps(line) + "\n" for line in lines))
    replayed = home.ok(
        "rejections", "replay", "first", "--asset", "clean", "--with", str(corrected)
    )
    corrected.unlink()
    found = home.ok("reproduce", replayed["run"]["run_id"])
    assert verdicts(found) == {"clean": "REPRODUCED"}
    assert target(found, "clean")["result"]["records_in"] == 1
