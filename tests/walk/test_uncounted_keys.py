"""Above a number of records a run does not count repeated keys: `why` and `where` say so, and how
to count them. What they name where keys repeat, tests/oracle compares."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

import tallyman as tm
from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

tm.source("comp", path="data/comp.csv", format="csv", key=["a", "b"],
          schema="a string, b int, u int, v int")


@tm.asset
def counted(comp):
    return comp.filter("v <> 7", name="sevens")


@tm.asset
def uncounted(comp):
    return comp.filter("v <> 7", name="sevens")
"""
COMP = "a,b,u,v\nx,1,1,5\nx,1,2,6\nx,,3,5\n,,4,6\n,1,5,5\ny,2,6,7\nx,1,7,8\n"


@pytest.fixture(autouse=True)
def _own_mode(own_mode: None) -> None:
    """The project stays open meanwhile."""


@pytest.fixture
def case(homes: Homes) -> Iterator[tuple[Home, tm.Project, str]]:
    """With the run for which seven records are too many to count keys."""
    home = homes.make(Home, "repeated").pipeline(PIPELINE)
    (home.path / "data").mkdir()
    (home.path / "data" / "comp.csv").write_text(COMP)
    home.ok("run", "counted")
    shutil.rmtree(home.path / ".tallyman" / "doors")  # where the first run left the count
    large = home.ok("run", "uncounted", "--spark-conf", "spark.tallyman.countKeysUpTo=5")
    with tm.Project.open(home.path) as project:
        yield home, project, large["run_id"]


def test_what_was_not_counted_is_said_and_verify_counts_it(
    case: tuple[Home, tm.Project, str],
) -> None:
    home, project, large = case
    door = json.loads(next(home.path.glob("runs/*/uncounted/ledger.json")).read_text())
    assert door["input_accounting"]["duplicate_keys"] is None
    command = f"tallyman verify {large} --exact"
    [hop] = project.why("uncounted", {"u": "1"}).hops
    [origin] = hop.inputs  # all that share its key
    assert sorted(r.line for r in origin.records if r.line) == [2, 3, 8]
    assert [command in note for note in hop.notes] == [True]
    by_asset = {one.asset: one for one in project.where("comp", {"u": "1"}).became}
    assert [command in note for note in by_asset["uncounted"].notes] == [True]
    assert not by_asset["counted"].notes
    # By key alone, a record with NULL in its key is none of the others that have no key either.
    keyless = project.where("comp", {"a": "null", "b": "null"})
    assert {one.asset: one.rows for one in keyless.became}["uncounted"] == 1
    assert command in home.printed("show", large)[1].replace("\n", " ")
    verdict = home.ok("verify", large, "--exact")
    assert (verdict["verified"], verdict["repeated_keys"]) == (True, {"uncounted": 2})
