"""What an orchestrator asks: how an asset stands, what failed in any run, and notes about runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.world.numbers import PIPELINE, NumbersHome

FIRST, SECOND, THIRD = "2025-01-01", "2025-01-02", "2025-01-03"


@pytest.fixture(scope="module")
def numbers(new_home: Callable[[], NumbersHome]) -> NumbersHome:
    """Two days, of which the second has no file at first."""
    made = new_home().numbers(FIRST, 1, 2).numbers(THIRD, 3)
    listed = made.path / "days.txt"
    listed.write_text(f"{FIRST}\n\n{SECOND}\n")
    reply = made.tallyman(
        "backfill", "--partitions", f"@{listed}", "--meta", "ticket=T-1", "--meta", "why=late"
    )
    assert reply.code == 1, str(reply)
    return made


def test_a_backfill_takes_a_list_of_partitions(numbers: NumbersHome) -> None:
    made = {(r["asset"], r["partition"]) for r in results(numbers, "numbers", "doubled", "sum")}
    assert made == {(a, d) for a in ("numbers", "doubled", "sum") for d in (FIRST, SECOND)}


def results(home: NumbersHome, *assets: str) -> list[dict[str, object]]:
    found = []
    for asset in assets:
        reply = home.tallyman("status", asset)
        found += [{"asset": asset, **row} for row in reply.json["results"]]
    return found


def test_status_tells_state_run_version_and_error_and_a_script_can_ask(
    numbers: NumbersHome,
) -> None:
    good = numbers.tallyman("status", "numbers", FIRST)
    assert good.code == 0, str(good)
    assert (good.json["dataset"], good.json["version"]) == ("numbers", 1)
    assert [row["status"] for row in good.json["results"]] == ["success"]
    bad = numbers.tallyman("status", "numbers", SECOND)
    assert bad.code == 1
    [row] = bad.json["results"]
    assert row["status"] == "failed"
    assert SECOND in row["error"]
    text = numbers.printed("status", "numbers").stdout
    assert "numbers   dataset numbers v1" in text
    assert "failed" in text
    never = numbers.printed("status", "numbers", THIRD)
    assert never.code == 1
    assert "never run; make it:  tallyman run numbers" in never.stdout
    assert numbers.tallyman("status", "numbers", "yesterday").code == 2
    assert numbers.tallyman("status", "nubmers").code != 0


def test_notes_of_a_run_are_shown_and_found(numbers: NumbersHome) -> None:
    [run] = numbers.ok("runs", "--meta", "ticket=T-1")
    assert run["meta"] == {"ticket": "T-1", "why": "late"}
    assert numbers.ok("runs", "--meta", "ticket=T-2") == []
    assert numbers.ok("show", run["run_id"])["meta"] == run["meta"]
    assert "ticket: T-1" in numbers.printed("show", run["run_id"]).stdout
    assert numbers.tallyman("run", "--meta", "nothing").code == 2


def test_notes_of_an_asset_are_shown_and_found_and_make_nothing_stale(
    new_home: Callable[[], NumbersHome],
) -> None:
    home = new_home().numbers(FIRST, 1, 2)
    declared = '@tm.asset(key="id", partitioned_by=days{})\ndef numbers'
    bare = declared.format("")
    home.ok("run", "numbers", "--partition", FIRST, "--run-id", "bare")
    meta = ', meta={"owner": "finance", "tier": 1, "api_token": "T-17"}'
    home.pipeline(PIPELINE.replace(bare, declared.format(meta)))
    again = home.ok("run", "numbers", "--partition", FIRST, "--run-id", "noted")
    assert [made["status"] for made in again["assets"]] == ["skipped"]
    notes = {"owner": "finance", "tier": "1", "api_token": "T-17"}
    assert [row["name"] for row in home.ok("ls", "--meta", "owner=finance")] == ["raw", "numbers"]
    assert home.ok("ls", "--meta", "owner=finance", "--meta", "tier=2") == []
    listed = {row["name"]: row.get("meta") for row in home.ok("ls")}
    assert listed == {"raw": None, "numbers": notes, "doubled": {}, "sum": {}}
    assert home.ok("status", "numbers")["meta"] == notes
    assert "owner: finance" in home.printed("status", "numbers").stdout
    assert home.ok("show", "noted")["assets"][0]["meta"] == notes
    assert "owner: finance" in home.printed("show", "noted").stdout
    assert "meta" not in home.ok("show", "bare")["assets"][0]
    home.ok("run", "numbers", "--partition", FIRST, "--force", "--run-id", "forced")
    told = (home.folder("forced") / "lineage" / "job_events.jsonl").read_text().splitlines()
    tags = [json.loads(line)["job"]["facets"].get("tags") for line in told]
    [facet] = [one["tags"] for one in tags if one][-1:]
    shown = {one["key"]: one["value"] for one in facet}
    assert shown == {"owner": "finance", "tier": "1", "api_token": "***"}


@pytest.mark.parametrize(
    "meta", ["'finance'", "{'a=b': 'c'}", "{'a': None}", "{'a': ' '}", "{1: 2}"]
)
def test_notes_that_nobody_could_ask_for_are_refused(
    new_home: Callable[[], NumbersHome], meta: str
) -> None:
    wrong = PIPELINE.replace('@tm.asset(key="id"', f'@tm.asset(meta={meta}, key="id"', 1)
    reply = new_home().pipeline(wrong).tallyman("ls")
    assert reply.code == 2, str(reply)
    assert "asset numbers: meta" in str(reply)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--partitions", FIRST, "--from", FIRST), "not both"),
        (("--partitions", "@nowhere.txt"), "nowhere.txt cannot be read"),
        (("--partitions", "soon"), "soon"),
    ],
)
def test_a_list_that_means_nothing_is_refused(
    numbers: NumbersHome, words: tuple[str, ...], message: str
) -> None:
    reply = numbers.tallyman("backfill", *words)
    assert reply.code == 2, str(reply)
    assert message in str(reply)


def test_all_that_failed_is_resumed_in_one_command(
    new_home: Callable[[], NumbersHome], tmp_path: Path
) -> None:
    home = new_home()
    for day in (FIRST, SECOND):
        assert home.tallyman("run", "--partition", day, "--run-id", day).code == 1
    failed = home.ok("runs", "--failed")
    assert {row["run_id"] for row in failed} == {FIRST, SECOND}
    home.numbers(FIRST, 1).numbers(SECOND, 2)
    resumed = home.ok("resume", "--failed")
    assert [one["run_id"] for one in resumed] == [FIRST, SECOND]
    assert home.ok("runs", "--failed") == []
    assert home.ok("resume", "--failed") == []
    assert home.tallyman("resume").code == 2
    assert home.tallyman("resume", FIRST, "--failed").code == 2
