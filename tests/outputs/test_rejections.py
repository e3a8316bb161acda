"""The rejections of an asset as a dataset: versions, readers, and the commit they come in.

One project: a run, the declaration added, corrected data, a rollback, partitions, and names that
are taken.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.reply import Reply

PIPELINE = """\
import tallyman as tm

tm.source("raw", path="data/raw.jsonl", format="json", key="id",
          schema="id string, day string, amount int")


@tm.asset(key="id", thresholds={"percentage": 0.9})
def orders(raw):
    return raw.expect("positive", "amount > 0").filter("amount < 100", reason="large")


@tm.asset(key="day")
def totals(orders):
    return orders.groupBy("day").agg(total="sum(amount)")


@tm.asset(key="id", thresholds={"percentage": 0.9},
          partitioned_by=tm.partitions("day", ["mon", "tue"]), publish_rejections="by_day_rejected")
def by_day(raw):
    return raw.expect("positive", "amount > 0")
"""
DECLARED = 'percentage": 0.9}, publish_rejections="orders_rejected")\ndef orders'
BAD: tuple[dict[str, object], ...] = (
    {"id": "a", "day": "mon", "amount": 5},
    {"id": "b", "day": "mon", "amount": -1},
    {"id": "c", "day": "tue", "amount": "much"},
    {"id": "d", "day": "tue", "amount": 500},
)


@dataclass(frozen=True)
class Story:
    """What each command of the story answered."""

    home: Home
    plain: Any
    plan: Any
    declared: Any
    first: dict[str, Any]
    corrected: Any
    second: dict[str, Any]
    back: dict[str, Any]


@pytest.fixture(scope="module")
def story(homes: Homes) -> Story:
    home = homes.make(Home, "rejected").pipeline(PIPELINE).data("raw.jsonl", *BAD)
    plain = home.ok("run", "orders+")
    home.edit('percentage": 0.9})\ndef orders', DECLARED)
    plan = home.ok("plan")
    declared = home.ok("run", "orders+")
    first = {
        "rows": home.ok("read", "orders_rejected"),
        "outside": home.outside("orders_rejected"),
        "verify": home.ok("verify", "dataset", "orders_rejected"),
        "again": home.ok("run", "orders+"),
    }
    good = [{**row, "amount": 7} for row in BAD]
    corrected = home.data("raw.jsonl", *good).ok("run", "orders+")
    second = {
        "rows": home.ok("read", "orders_rejected"),
        "outside": home.outside("orders_rejected"),
        "diff": home.ok("diff", "orders_rejected", "1", "2"),
        "versions": home.ok("versions", "orders_rejected"),
    }
    home.ok("rollback", "orders_rejected", "--to", "1")
    back = {"rows": home.ok("read", "orders_rejected"), "of_two": home.rows("orders_rejected", 2)}
    return Story(home, plain, plan, declared, first, corrected, second, back)


def test_declaring_it_makes_no_row_again(story: Story) -> None:
    assert story.plain["published"] == {"orders": 1, "totals": 1}
    [planned] = [one for one in story.plan["planned"] if one["name"] == "orders"]
    assert (planned["action"], "no rows are made again" in planned["reason"]) == ("publish", True)
    assert {one["status"] for one in story.declared["assets"]} == {"skipped"}
    assert story.declared["published"] == {"orders_rejected": 1}
    assert story.first["again"]["published"] == {}  # and not once more


def test_each_rejection_is_a_row(story: Story) -> None:
    found = {row["source_key"]: row for row in story.first["rows"]}
    assert set(found) == {"b", "c"}
    broken, unread = found["b"], found["c"]
    assert broken["error_type"] == "refinement_error"
    assert broken["morphism_path"] == "orders.positive"
    assert (broken["expected"], broken["actual"]) == ("amount > 0", "-1")
    assert (unread["error_type"], unread["field"]) == ("type_cast_error", "amount")
    assert unread["actual"] == "much"
    assert (broken["partition"], broken["step"]) == (None, "10_expect")
    assert len({row["error_id"] for row in found.values()}) == 2


def test_outside_readers_and_verify_find_it(story: Story) -> None:
    outside = story.first["outside"]
    assert outside is not None
    assert [row[1] for row in sorted(outside, key=lambda row: str(row[1]))] == ["b", "c"]
    assert (story.first["verify"]["intact"], story.first["verify"]["files"]) == (True, 1)


def test_it_is_published_in_the_commit_of_its_asset(story: Story) -> None:
    assert set(story.corrected["published"]) == {"orders", "orders_rejected", "totals"}
    commits = story.home.ok("commits")
    [own] = [one for one in commits if one["id"] == story.corrected["commit"]]
    assert "orders_rejected" in json.dumps(own)


def test_no_rejections_is_an_empty_version_with_the_schema(story: Story) -> None:
    assert (story.second["rows"], story.second["outside"]) == ([], [])
    assert [v["rows"] for v in story.second["versions"]][::-1] == [2, 0]
    assert story.second["diff"]["removed"] == 2
    assert (
        len(story.home.catalog.load_table(("published", "orders_rejected")).schema().fields) == 14
    )


def test_a_rollback_brings_them_back(story: Story) -> None:
    assert {row["source_key"] for row in story.back["rows"]} == {"b", "c"}
    assert story.back["of_two"] == []


def test_lineage_events_name_it_as_an_output(story: Story) -> None:
    home = story.home
    folder = home.path / story.corrected["folder"] / "lineage"
    ended = json.loads((folder / "run_complete.json").read_text())
    found = [o for o in ended["outputs"] if o["name"].endswith("orders_rejected")]
    assert found
    assert found[0]["outputFacets"]["outputStatistics"]["rowCount"] == 0
    fields = [f["name"] for f in found[0]["facets"]["schema"]["fields"]]
    assert fields[:3] == ["error_id", "source_key", "error_type"]


def test_a_partitioned_asset_has_rejections_by_partition(story: Story) -> None:
    home = story.home.data("raw.jsonl", *BAD)
    made = home.ok("run", "by_day", "--partition", "mon")
    assert made["published"] == {"by_day": 1, "by_day_rejected": 1}
    home.ok("run", "by_day", "--partition", "tue")
    rows = home.ok("read", "by_day_rejected")
    met = {(row["source_key"], row["partition"]) for row in rows}
    assert {("b", "mon"), ("c", "mon"), ("c", "tue")} == met  # c cannot be read by either


def test_a_replay_leaves_them_and_the_next_run_too(story: Story) -> None:
    home = story.home.data("raw.jsonl", *BAD)
    first = home.ok("run", "orders")
    found = home.rows("orders_rejected")
    assert {row[1] for row in found} == {"b", "c"}
    (home.path / "corrected.jsonl").write_text('{"id": "b", "day": "mon", "amount": 3}\n')
    replay = ("rejections", "replay", first["run_id"], "--asset", "orders")
    home.ok(*replay, "--with", "corrected.jsonl")
    assert home.rows("orders_rejected") == found
    again = home.ok("run", "orders")
    assert (again["assets"][0]["status"], again["published"]) == ("skipped", {})
    assert home.rows("orders_rejected") == found
    assert {row["id"] for row in home.ok("read", "orders")} == {"a", "b"}


def test_a_name_that_is_taken_in_the_database_is_refused_before_any_work(story: Story) -> None:
    home = story.home
    home.ok("snapshot", "orders", "kept")
    text = (home.path / "pipelines" / "p.py").read_text()
    try:
        said = home.edit('"orders_rejected"', '"kept"').tallyman("run", "orders")
    finally:
        home.pipeline(text)
    assert said.code == 4, said
    assert "kept" in json.dumps(said.json)


NAMES = {
    '"orders_rejected"': ('"Orders"', "use lower-case letters"),
    'publish_rejections="orders_rejected"': (
        'publish_rejections="totals"',
        "the dataset 'totals' already belongs to asset totals",
    ),
    '"by_day_rejected"': (
        '"orders_rejected"',
        "the dataset 'orders_rejected' already belongs to the rejections of asset orders",
    ),
}


@pytest.mark.parametrize("before", NAMES)
def test_a_name_that_cannot_be_is_a_definition_error(story: Story, before: str) -> None:
    after, message = NAMES[before]
    text = (story.home.path / "pipelines" / "p.py").read_text()
    try:
        said: Reply = story.home.edit(before, after).tallyman("plan")
    finally:
        story.home.pipeline(text)
    assert said.code == 2, said
    assert message in json.dumps(said.json)
