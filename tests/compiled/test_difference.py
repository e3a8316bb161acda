"""Two versions of a pipeline are compared in words: what differs, and which rows it makes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallyman.control.pipeline.compare_versions import compare_versions
from tallyman.control.pipeline.workspace import Workspace
from tallyman.domain.pipeline.pipeline_version import PipelineVersion, version_hash
from tallyman.project import Project

PIPELINE = """\
import tallyman as tm

tm.source("raw", "data/raw.jsonl", "json", key="id", schema="id string, a int, day string")
tm.source("days", "data/days.csv", "csv", key="day", schema="day string, name string")
tm.source("unread", "data/unread.csv", "csv", key="a", schema="a string")
tm.table("notes", schema="id string, text string", key="id")


@tm.asset(key="id", thresholds=dict(absolute=5, percentage=0.5))
def clean(raw):
    return raw.expect("given", "a IS NOT NULL").filter("a > 1", reason="small")


@tm.asset(key="day")
def daily(clean, days):
    return (clean.join(days.filter("name <> ''"), "day", unmatched="error")
        .groupBy("day").agg(total="sum(a)", rows="count(*)"))


@tm.asset(key="day")
def monthly(daily):
    return daily.withColumn("month", "substr(day, 1, 7)")


@tm.asset(key="id")
def other(notes):
    return notes
"""
NONE = "no rows are made again"
CASES = {
    "predicate": (
        ('"a > 1"', '"a > 2"'),
        "asset clean: rows of clean, daily and monthly are made again",
        ["step 20_filter: where `a > 1` → `a > 2`"],
    ),
    "new step": (
        ('.filter("a > 1"', '.filter("a < 9", reason="large").filter("a > 1"'),
        "asset clean: rows of clean, daily and monthly are made again",
        ['step 20_filter is new: {"filter":{"reason":"large","where":"a < 9"}}'],
    ),
    "step gone": (
        ('.expect("given", "a IS NOT NULL")', ""),
        "asset clean: rows of clean, daily and monthly are made again",
        ['step 10_expect is gone: {"expect":{"rule":"given","that":"a IS NOT NULL"}}'],
    ),
    "aggregate": (
        ('total="sum(a)"', 'total="max(a)"'),
        "asset daily: rows of daily and monthly are made again",
        ["step 20_groupBy: agg total `sum(a)` → `max(a)`"],
    ),
    "plan in a plan": (
        ("name <> ''", "name > ''"),
        "asset daily: rows of daily and monthly are made again",
        ["step 10_join: with: step 10_filter: where `name <> ''` → `name > ''`"],
    ),
    "formatting": (
        ('"substr(day, 1, 7)"', '"substr( day,1,7 )"'),
        f"asset monthly: formatting only: {NONE}",
        ["step 10_withColumn: columns month `substr(day, 1, 7)` → `substr( day,1,7 )`"],
    ),
    "only about running it": (
        ('@tm.asset(key="day")\ndef monthly', '@tm.asset(key="day", tags=["t"])\ndef monthly'),
        f"asset monthly: {NONE}",
        ['tags (not given) → ["t"]'],
    ),
    "threshold": (  # it decides whether rows are published, so the hash of a definition has it
        ("percentage=0.5", "percentage=0.25"),
        "asset clean: rows of clean, daily and monthly are made again",
        ["thresholds.percentage 0.5 → 0.25"],
    ),
    "source": (
        ("day string, name string", "day string, name string, n int"),
        "source days: rows of daily and monthly are made again",
        ["schema `day string, name string` → `day string, name string, n int`"],
    ),
    "schema formatting": (
        ('schema="day string, name string"', 'schema="day STRING,name  string"'),
        f"source days: formatting only: {NONE}",
        ["schema `day string, name string` → `day STRING,name  string`"],
    ),
    "source that nothing reads": (
        ("data/unread.csv", "data/elsewhere.csv"),
        f"source unread: nothing reads it: {NONE}",
        ["path `data/unread.csv` → `data/elsewhere.csv`"],
    ),
    "table": (
        ("id string, text string", "id string, text string, by string"),
        f"table notes: its rows stay, later changes follow the new declaration; {NONE}",
        ["schema `id string, text string` → `id string, text string, by string`"],
    ),
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    home = tmp_path_factory.mktemp("compared")
    (home / "tallyman.yaml").write_text("name: compared\n")
    (home / "pipelines").mkdir()
    return Project.open(home).workspace


def version(workspace: Workspace, text: str) -> Workspace:
    Path(workspace.home, "pipelines", "p.py").write_text(text)
    plan = workspace.compiled().text()
    return workspace.at(PipelineVersion(hash=version_hash(plan), plan=plan))


@pytest.fixture(scope="module")
def base(workspace: Workspace) -> Workspace:
    return version(workspace, PIPELINE)


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_a_change_is_described_with_its_consequence(base: Workspace, case: str) -> None:
    (before, after), effect, edits = CASES[case]
    edited = version(base, PIPELINE.replace(before, after))
    found = compare_versions(base, edited)
    [change] = found.changes
    assert f"{change.item.kind} {change.item.name}: {change.effect}" == effect
    assert [str(edit) for edit in change.item.edits] == edits
    assert change.made_again == found.made_again
    # The other way round, the same assets are made again.
    assert compare_versions(edited, base).made_again == found.made_again


def test_declarations_come_and_go_and_comments_change_nothing(base: Workspace) -> None:
    yearly = '\n\n@tm.asset(key="day")\ndef yearly(monthly):\n    return monthly\n'
    more = version(base, PIPELINE + yearly)
    found = compare_versions(base, more)
    [new] = found.changes
    assert (new.item.change, new.effect) == ("added", "its rows are made by the next run")
    assert found.made_again == ("yearly",)
    [gone] = compare_versions(more, base).changes
    assert gone.item.change == "removed"
    assert "`tallyman apply` removes its dataset" in gone.effect
    same = compare_versions(base, version(base, f"# why\n{PIPELINE}"))
    assert (same.changes, same.before == same.after) == ((), True)
