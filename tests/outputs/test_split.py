"""An asset that divides its rows among named outputs: every row in exactly one, or rejected.

One project: a run, the same again, a reader of each output, an edit, a resume, and mistakes.
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
          schema="id string, status string, amount int")


@tm.asset(key="id", thresholds={"percentage": 0.9},
          split={"paid": "status = 'paid' -- in full", "unpaid": "status = 'open' OR amount > 50"})
def orders(raw):
    return raw.filter("amount >= 0", reason="negative")


@tm.asset(key="status")
def paid_totals(paid):
    return paid.groupBy("status").agg(n="count(*)", total="sum(amount)")


@tm.asset(key="id")
def labelled(unpaid, paid):
    known = paid.select("amount AS known")
    return unpaid.join(known, "amount = known", how="left").select("id")


@tm.asset(key="status", split={"many": "n > 1", "few": tm.otherwise})
def by_status(orders):
    return orders.groupBy("status").agg(n="count(*)")
"""
ROWS: tuple[dict[str, object], ...] = (
    {"id": "a", "status": "paid", "amount": 10},
    {"id": "b", "status": "open", "amount": 20},
    {"id": "c", "status": "paid", "amount": 60},  # both conditions: the first decides
    {"id": "d", "status": None, "amount": 70},  # the first is NULL, the second true
    {"id": "e", "status": "new", "amount": 5},  # neither
    {"id": "f", "status": None, "amount": 5},  # NULL twice
    {"id": "g", "status": "paid", "amount": -1},  # filtered before
)


@dataclass(frozen=True)
class Story:
    """What each command of the story answered."""

    home: Home
    run: Any
    paid: Any
    unpaid: Any
    outside: Any
    why_paid: Any
    why_totals: Any
    where: Any
    reproduced: Reply
    verified: Any
    plan: Any
    again: Any
    commits: Any
    read: dict[str, Any]


@pytest.fixture(scope="module")
def story(homes: Homes) -> Story:
    home = homes.make(Home, "split").pipeline(PIPELINE)
    home.data("raw.jsonl", *ROWS)
    run = home.ok("run")
    return Story(
        home=home,
        run=run,
        paid=home.ok("read", "paid"),
        unpaid=home.ok("read", "unpaid"),
        outside=home.outside("paid"),
        why_paid=home.ok("why", "paid", "id=c"),
        why_totals=home.ok("why", "paid_totals", "status=paid"),
        where=home.ok("where", "raw", "id=d"),
        reproduced=home.tallyman("reproduce", run["run_id"]),
        verified=[home.ok("verify", "dataset", name) for name in ("paid", "unpaid")],
        plan=home.ok("plan"),
        again=home.ok("run"),
        commits=home.ok("commits"),
        read={name: home.ok("read", name) for name in ("many", "few", "paid_totals", "labelled")},
    )


def of(run: Any, name: str) -> dict[str, Any]:
    [found] = [one for one in run["assets"] if one["name"] == name]
    return dict(found)


def test_every_row_is_in_exactly_one_output(story: Story) -> None:
    assert {row["id"] for row in story.paid} == {"a", "c"}
    assert {row["id"] for row in story.unpaid} == {"b", "d"}
    assert sorted(row[0] for row in story.outside) == ["a", "c"]
    orders = of(story.run, "orders")
    met = {fate: count for fate, count in orders["fates"].items() if count}
    assert met == {"PASSED": 4, "FILTERED": 1, "ERROR": 2}
    assert orders["unaccounted"] == 0
    assert all(found["intact"] for found in story.verified)


def test_a_row_that_fits_no_output_is_rejected(story: Story) -> None:
    found = story.home.ok("rejections", "show", story.run["run_id"], "--asset", "orders")
    assert {one["source_key"] for one in found["rejections"]} == {"e", "f"}
    assert {one["morphism_path"] for one in found["rejections"]} == {"orders.no_output"}


def test_outputs_are_published_in_one_commit(story: Story) -> None:
    names = {"orders", "paid", "unpaid", "paid_totals", "labelled", "by_status", "many", "few"}
    assert set(story.run["published"]) == names
    assert len(story.commits) == 1


def test_lineage_events_name_outputs_and_what_their_readers_read(story: Story) -> None:
    assert "notes" not in story.run  # such as events that could not be built
    folder = story.home.path / story.run["folder"] / "lineage"
    events = [json.loads(line) for line in (folder / "job_events.jsonl").read_text().splitlines()]
    ended = {e["job"]["name"]: e for e in events if e["eventType"] == "COMPLETE"}
    [made] = [e for name, e in ended.items() if name.endswith("orders")]
    outputs = {o["name"].rpartition(".")[2]: o for o in made["outputs"]}
    assert set(outputs) == {"orders", "paid", "unpaid"}
    assert outputs["paid"]["outputFacets"]["outputStatistics"]["rowCount"] == 2
    lineage = outputs["paid"]["facets"]["columnLineage"]["fields"]
    assert set(lineage) == {"id", "status", "amount"}
    [read] = [e for name, e in ended.items() if name.endswith("paid_totals")]
    assert [i["name"].rpartition(".")[2] for i in read["inputs"]] == ["orders"]
    assert "columnLineage" in read["outputs"][0]["facets"]


def test_groups_are_divided_like_rows(story: Story) -> None:
    assert [row["status"] for row in story.read["many"]] == ["paid"]
    few = {row["status"] for row in story.read["few"]}
    assert few == {"open", None}


def test_a_reader_takes_an_output_by_its_name(story: Story) -> None:
    totals = story.read["paid_totals"]
    assert [(row["n"], row["total"]) for row in totals] == [(2, 70)]
    fates = of(story.run, "paid_totals")["fates"]
    assert (fates["AGGREGATED"], fates["FILTERED"]) == (2, 2)
    assert {row["id"] for row in story.read["labelled"]} == {"b", "d"}


def test_why_and_where_lead_through_a_split(story: Story) -> None:
    assert "c" in json.dumps(story.why_paid)
    [hop] = story.why_paid["hops"]
    assert hop["asset"] == "orders"
    text = json.dumps(story.why_totals)
    assert "raw" in text
    assert "data/raw.jsonl" in text
    [became] = story.where["became"]  # one result, though it is in three datasets
    assert sorted(one["asset"] for one in became["then"]) == [
        "by_status",
        "labelled",
        "paid_totals",
    ]
    notes = json.dumps(became)
    assert "1 row in output unpaid" in notes
    assert "in output paid" not in notes


def test_nothing_changed_means_nothing_made(story: Story) -> None:
    assert {one["status"] for one in story.again["assets"]} == {"skipped"}
    assert story.again["published"] == {}
    assert {one["action"] for one in story.plan["planned"]} == {"reuse"}


def test_the_run_can_be_made_again(story: Story) -> None:
    assert story.reproduced.code == 0, story.reproduced


def test_an_edit_an_interruption_and_a_resume(story: Story) -> None:
    home = story.home.edit("status = 'open' OR amount > 50", "amount > 50")
    killed = home.printed("run", "--run-id", "cut", TALLYMAN_CRASH_AT="asset_recorded")
    assert killed.code in (137, -9)
    home.ok("resume", "cut")
    assert {row["id"] for row in home.ok("read", "unpaid")} == {"d"}
    assert {row["id"] for row in home.ok("read", "paid")} == {"a", "c"}
    home.ok("rollback", "unpaid", "--to", "1")
    assert {row["id"] for row in home.ok("read", "unpaid")} == {"b", "d"}
    home.edit("amount > 50", "status = 'open' OR amount > 50")


MISTAKES = {
    "twice": ('"unpaid": "status', '"orders": "status', "'orders'"),
    "taken": ('"unpaid": "status', '"by_status": "status', "declared as something else"),
    "not a name": ('"unpaid": "status', '"Un Paid": "status', "use lower-case letters"),
    "one only": ('"paid": "status = \'paid\' -- in full", ', "", "at least two outputs"),
    "not boolean": ("status = 'paid'", "amount + 1", "gives int, not true or false"),
    "clock": ("status = 'paid'", "current_date() > DATE'2020-01-01'", "reads the clock"),
    "unknown column": ("status = 'paid'", "sttus = 'paid'", "sttus"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_split_that_cannot_be_is_a_definition_error(story: Story, mistake: str) -> None:
    before, after, message = MISTAKES[mistake]
    text = (story.home.path / "pipelines" / "p.py").read_text()
    try:
        said = story.home.edit(before, after).tallyman("check")
    finally:
        story.home.pipeline(text)
    assert said.code == 2, said
    assert message in json.dumps(said.json)
