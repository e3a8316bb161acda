"""Runs end: what nothing needs can be removed, and everything else stays."""

from __future__ import annotations

import shutil

import pytest

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

tm.source("raw", "data/raw.jsonl", schema="id string, n int", key="id")


@tm.asset(key="id", thresholds=dict(absolute=0, percentage=1))
def clean(raw):
    return raw.expect("positive", "n > 0")


@tm.asset(key="id")
def doubled(clean):
    return clean.withColumn("n", "n * 2")
"""


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    """Four runs: `first` is replaced by `second`, which `third` reuses; `broken` lacks its data."""
    return four_runs(homes)


def four_runs(homes: Homes) -> Home:
    made = homes.make(Home, "retention").pipeline(PIPELINE)
    made.data("raw.jsonl", {"id": "a", "n": 1}, {"id": "b", "n": -1})
    made.ok("run", "--run-id", "first")
    made.data("raw.jsonl", {"id": "a", "n": 2}, {"id": "b", "n": -1})
    made.ok("run", "--run-id", "second")
    made.ok("run", "--run-id", "third")
    shutil.move(made.path / "data", made.path / "elsewhere")
    assert made.tallyman("run", "--run-id", "broken").code == 1
    shutil.move(made.path / "elsewhere", made.path / "data")
    return made


RUNS = ("first", "second", "third", "broken", "fourth")


def folder(home: Home, run: str) -> bool:
    return any((home.path / "runs").glob(f"*_{run}"))


def kept(home: Home) -> dict[str, str | None]:
    listed = home.ok("runs", "rm", "--older-than", "0s")["runs"]
    return {one["run_id"]: one["kept"] for one in listed}


def test_what_failed_in_any_run_is_listed_until_it_is_made(home: Home) -> None:
    listed = home.ok("runs", "ls", "--failed")
    assert {(one["asset"], one["status"], one["run_id"]) for one in listed} == {
        ("clean", "failed", "broken"),
        ("doubled", "pending", "broken"),
    }
    assert "raw" in next(one["error"] for one in listed if one["asset"] == "clean")


def test_a_preview_says_what_keeps_each_run_and_removes_nothing(home: Home) -> None:
    found = kept(home)
    assert found["first"] in ("clean v1 has rows that it made", "doubled v1 has rows that it made")
    assert found["second"] in ("clean v2 has rows that it made", "doubled v2 has rows that it made")
    assert found["third"] is None or "newest" in found["third"]
    assert all(folder(home, run) for run in ("first", "second", "third", "broken"))


def test_a_run_that_a_version_needs_is_refused(home: Home) -> None:
    reply = home.tallyman("runs", "rm", "first", "--confirm")
    assert reply.code == 4, str(reply)
    assert reply.json["error"]["code"] == "in_use"
    assert "has rows that it made" in reply.json["error"]["message"]
    assert folder(home, "first")


def test_a_run_that_nothing_needs_is_gone_and_its_seal_stays(homes: Homes) -> None:
    home = four_runs(homes)
    home.data("raw.jsonl", {"id": "a", "n": 3})
    home.ok("run", "--run-id", "fourth")
    for name in ("clean", "doubled"):
        home.ok("purge", name, "1", "--confirm")
    preview = home.ok("runs", "rm", "first")
    assert not preview["confirmed"]
    assert preview["runs"][0]["bytes"] > 0
    assert folder(home, "first")

    home.ok("runs", "rm", "first", "--confirm")

    assert not folder(home, "first")
    listed = {one["run_id"]: one["removed"] for one in home.ok("runs")}
    assert (listed["first"], listed["second"]) == (True, False)
    assert "(removed)" in home.printed("runs").stdout
    chain = home.ok("verify", "chain")
    assert chain["intact"]
    assert "first" in str(chain["gone"])
    assert home.ok("audit")[0]["event_type"] == "run.removed"
    for words in (("trace", "first"), ("verify", "first"), ("resume", "first")):
        reply = home.tallyman(*words)
        assert reply.code != 0, words
        assert "was removed on" in str(reply), (words, str(reply))
    assert home.ok("verify", "second")["balanced"]

    # A crash between the mark and the files leaves them for the next removal.
    home.sql("UPDATE runs SET removed_at = now(), removed_by = 'me' WHERE name = 'broken'")
    assert folder(home, "broken")
    home.ok("runs", "rm", "--older-than", "1000w", "--confirm")
    assert not folder(home, "broken")

    # A cleanup removes runs of the age in the settings.
    settings = home.path / "tallyman.yaml"
    settings.write_text("keep_runs: 0s\n" + settings.read_text())
    assert {one["run_id"] for one in home.ok("cleanup")["runs"]} == {"third"}, kept(home)
    assert folder(home, "third")
    home.ok("cleanup", "--confirm")
    assert home.ok("cleanup")["runs"] == []
    assert [run for run in RUNS if folder(home, run)] == ["second", "fourth"]
    assert home.ok("verify", "chain")["intact"]
    assert home.ok("why", "doubled", "id=a")["hops"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("second", "--older-than", "1d"), "not both"),
        (("--older-than", "long"), "expected a number and s, m, h, d or w"),
        (("nobody",), "nobody"),
    ],
)
def test_mistakes_are_named(home: Home, words: tuple[str, ...], message: str) -> None:
    reply = home.tallyman("runs", "rm", *words)
    assert reply.code in (1, 2)
    assert message in str(reply)
