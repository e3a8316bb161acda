"""A pipeline version is kept whole, and runs without its files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest

from tests.publication.conftest import ThreeHome

VERSIONS = "SELECT hash, plan, files FROM pipeline_versions ORDER BY created_at"


def test_a_version_is_its_plan_and_is_kept_once_with_its_files(
    new_home: Callable[[], ThreeHome],
) -> None:
    home = new_home().numbers(1)
    home.ok("run", "a")
    plan = home.printed("compile").stdout.removesuffix("\n")
    [(first, kept, files)] = home.query(VERSIONS)
    text = (home.path / "pipelines" / "p.py").read_text()
    assert (kept, files) == (plan, {"p.py": text})
    # Other files, the same plan: one version, with the files it was first made from.
    home.edit("def a(raw):\n    return raw", "def a(raw):\n    rows = raw  # all\n    return rows")
    assert home.ok("run", "a")["commit"] is None
    assert home.query(VERSIONS) == [(first, plan, {"p.py": text})]
    # A plan that builds nothing registers its version, too.
    home.edit('@tm.asset(key="id")\ndef c', '@tm.asset(key="id", tags=["t"])\ndef c')
    home.ok("run")
    home.edit('tags=["t"]', 'tags=["u"]')
    home.ok("plan")
    assert home.ok("apply")["commit"]
    assert [plan is not None for _, plan, _ in home.query(VERSIONS)] == [True] * 3
    assert home.query("SELECT active_version FROM pipelines") == [(home.query(VERSIONS)[2][0],)]


@pytest.fixture(scope="module")
def home(new_home: Callable[[], ThreeHome]) -> ThreeHome:
    """Two versions were run; then the machine lost the pipeline's files."""
    made = new_home().numbers(1, 2)
    made.ok("run", "--run-id", "first")
    made.edit('"n * 2"', '"n * 10"')
    made.ok("run", "--run-id", "second")
    shutil.move(made.path / "pipelines", made.path / "kept")
    return made


def hashes(home: ThreeHome) -> tuple[str, str]:
    found = home.query("SELECT hash FROM pipeline_versions ORDER BY created_at")
    return str(found[0][0]), str(found[1][0])


def versions_are_listed_shown_and_named_by_a_prefix(home: ThreeHome) -> None:
    first, second = hashes(home)
    listed = home.ok("pipeline-versions")
    facts = [(v["version"], v["state"], v["runs"]) for v in listed["versions"]]
    assert facts == [(second, "active", 1), (first, "", 1)]
    assert (listed["pipeline"]["active"], listed["pipeline"]["files"]) == (second, None)
    text = home.printed("pipeline-versions").stdout
    assert f"`tallyman run --pipeline-version {second[:8]}` runs the active version" in text

    shown = home.printed("pipeline-versions", first[:9]).stdout
    assert f"pipeline version {first} " in shown
    assert "asset b   reads a\n" in shown
    assert "file p.py   " in shown
    written = home.printed("pipeline-versions", first[:9], "--file", "p.py").stdout
    assert '"n * 2"' in written
    plan = home.printed("compile", "--version", first[:9].upper())
    assert (plan.code, json.loads(plan.stdout)["tallyman"]) == (0, 1)
    assert home.printed("compile", "-v", "active").stdout != plan.stdout

    wrong = home.tallyman("compile", "--version", f"{first[:7]}x")
    assert (wrong.code, wrong.json["error"]["code"]) == (2, "not_found")
    assert f"Did you mean '{first[:8]}'?" in wrong.json["error"]["message"]
    like = f"{first[:6]}{'f' * 58}"
    home.owner(
        "INSERT INTO pipeline_versions (org, project, hash, definition, plan, files) "
        f"VALUES ('default', 'published', '{like}', '{{}}', '{{}}', '{{}}')"
    )
    twice = home.tallyman("run", "--pipeline-version", first[:6])
    assert (twice.code, twice.json["error"]["code"]) == (2, "version_ambiguous")
    damaged = home.tallyman("run", "--pipeline-version", like)
    assert (damaged.code, damaged.json["error"]["code"]) == (1, "plan_damaged")
    home.owner(f"DELETE FROM pipeline_versions WHERE hash = '{like}'")


def two_versions_are_compared_in_words(home: ThreeHome) -> None:
    first, second = hashes(home)
    reply = home.printed("diff-pipeline", first[:8], second[:8])
    assert reply.stdout.splitlines() == [
        f"pipeline {first[:8]} → {second[:8]}",
        "asset b: rows of b and c are made again",
        "  step 10_withColumn: columns n `n * 2` → `n * 10`",
        "rows made again:  b, c",
    ]
    assert home.ok("diff-pipeline", second[:8], "active")["same"] is True
    assert home.tallyman("diff-pipeline", "active", "now").code == 2  # there are no files


def a_run_is_reproduced_from_its_stored_plan(home: ThreeHome) -> None:
    again = home.ok("reproduce", "first")
    assert (again["verdict"], again["stored_version"]) == ("REPRODUCED", hashes(home)[0])


def a_machine_without_the_files_rolls_back_runs_and_resumes_an_older_version(
    home: ThreeHome,
) -> None:
    first, second = hashes(home)
    commit = home.ok("commits")[-1]["id"]
    back = home.ok("rollback", "--commit", commit)
    assert (back["versions"], back["pipeline"]["active"]) == ({"b": 3, "c": 3}, first)
    assert back["pipeline"]["run"].startswith("the files declare no pipeline")
    assert home.tallyman("run").code == 2

    raw = home.path / "data" / "raw.jsonl"
    raw.unlink()
    failed = home.tallyman("run", "--pipeline-version", first[:8], "--run-id", "past")
    assert failed.code == 1, str(failed)
    home.numbers(1, 2, 3)
    home.ok("resume", "past")
    assert home.rows("c") == [("1", 3), ("2", 5), ("3", 7)]
    assert home.query("SELECT active_version FROM pipelines") == [(first,)]
    [manifest] = (home.path / "runs").glob("*_past/manifest.json")
    stated = json.loads(manifest.read_text())
    assert stated["pipeline_version"] == first
    assert f"plan:{first}" in manifest.read_text()
    checked = home.tallyman("verify", "inputs", "past").json
    assert checked["checked"]["code"]["source_hash"] == f"plan:{first}"
    assert checked["first_difference"]["kind"] == "input"  # it had no file when the run began
    assert home.printed("verify", "past").code == 0
    assert home.ok("run", "--pipeline-version", "active")["commit"] is None  # nothing changed

    # With the files of the version that was rolled back, every command says what a run would do.
    shutil.move(home.path / "kept", home.path / "pipelines")
    stands = home.printed("pipeline-versions").stdout.replace("\n", " ")
    assert f"the files declare {second[:8]}, which was rolled back" in stands
    refused = home.printed("run")
    assert refused.code == 4
    assert "tallyman run --pipeline-version active" in refused.stderr.replace("\n", " ")
    assert home.refused("run", "--pipeline-version", second[:8]) == "pipeline_rolled_back"
    home.edit('"n * 10"', '"n * 20"')
    stands = home.printed("pipeline-versions").stdout.replace("\n", " ")
    assert "`tallyman run` runs it and makes it active" in stands


def test_stored_versions_are_listed_compared_run_and_reproduced(home: ThreeHome) -> None:
    """Each part goes on where the one before ended."""
    versions_are_listed_shown_and_named_by_a_prefix(home)
    two_versions_are_compared_in_words(home)
    a_run_is_reproduced_from_its_stored_plan(home)
    a_machine_without_the_files_rolls_back_runs_and_resumes_an_older_version(home)
