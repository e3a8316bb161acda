"""A run of something unchanged restores what outside readers lost, and makes no commit for it."""

from __future__ import annotations

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

orders = tm.source("orders", path="data/orders.jsonl", format="json", schema="id int", key="id")

@tm.asset(key="id")
def kept(orders: tm.Frame) -> tm.Frame:
    return orders.filter("id > 1", reason="too small")
"""


def test_a_run_of_something_unchanged_restores_the_entry_without_a_commit(
    homes: Homes,
) -> None:
    home = homes.make(Home, "outside").pipeline(PIPELINE).data("orders.jsonl", {"id": 1}, {"id": 2})
    assert home.ok("run")["commit"]
    assert home.outside("kept") == [(2,)]
    commits = home.count("commits", "versions")
    home.owner("DELETE FROM iceberg_tables")
    assert home.outside("kept") is None
    reply = home.printed("run")
    assert reply.code == 0
    assert "restored for outside readers: published.kept: missing" in reply.stderr
    assert "published" not in reply.stdout
    assert "unchanged   run" in reply.stdout
    assert home.outside("kept") == [(2,)]
    assert home.count("commits", "versions") == commits
    assert "restored" not in home.printed("run").stderr


def test_a_commit_that_only_moves_the_pipeline_says_so(homes: Homes) -> None:
    home = homes.make(Home, "moved").pipeline(PIPELINE).data("orders.jsonl", {"id": 1}, {"id": 2})
    home.ok("run")
    home.edit('key="id")\ndef', 'key="id", tags=["daily"])\ndef')
    [line] = [line for line in home.printed("run").stdout.splitlines() if "published" in line]
    assert "no new version; pipeline version " in line
    assert " is active now   commit " in line
