"""The reference scenario "direct publish" of the specification, by the command.

The server is the project's own. Each step compares with what was there when it began, so that
they may come in any order.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator

import pytest

import tallyman as tm
from tallyman.cli.main import app
from tests.forked import Running
from tests.tables.conftest import (
    PIPELINE,
    Statement,
    Tables,
    all_intact,
    asked,
    delete,
    knows,
    person,
    reachable,
    rows_of,
    update,
)
from tests.world.scale import by_form

KILLS = by_form(4, 10)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Tables, tm.Project]]:
    """Ann and Bob know each other, person and knows are at version 5. Somebody has the project
    open meanwhile, so that not every command starts the server anew."""
    path = tmp_path_factory.mktemp("scenario")
    (path / "tallyman.yaml").write_text("name: scenario\n")
    home = Tables(path)
    home.pipeline(PIPELINE)
    with home.open() as project:
        names = ["Ann", "Bob", "Cid", "Dan", "Eva"]
        for name in names:
            project.mutate([person(name, 30), knows(name, "Ann")])
        assert project.heads() == {"person": 5, "knows": 5}
        yield home, project


@pytest.fixture
def home(scene: tuple[Tables, tm.Project]) -> Tables:
    return scene[0]


@pytest.fixture
def project(scene: tuple[Tables, tm.Project]) -> tm.Project:
    return scene[1]


def moved(before: dict[str, int], **by: int) -> dict[str, int]:
    return {name: ordinal + by.get(name, 0) for name, ordinal in before.items()}


def test_step_1_two_tables_move_in_exactly_one_commit_and_its_actor_is_on_record(
    home: Tables, project: tm.Project
) -> None:
    before, history = project.heads(), project.commits(limit=1000)
    file = home.file(person("Eve", 31), knows("Eve", "Ann"))
    said = home.ok("mutate", file, "--message", "as asked", TALLYMAN_ACTOR="alice")
    assert said["versions"] == project.heads() == moved(before, person=1, knows=1)
    [commit, *rest] = home.ok("commits", "--limit", "1000")
    assert [row["id"] for row in rest] == [str(c.id) for c in history]
    assert (commit["id"], commit["parent"]) == (said["commit"], rest[0]["id"])
    assert (commit["actor"], commit["kind"], commit["message"]) == ("alice", "mutate", "as asked")
    assert commit["versions"] == said["versions"]
    assert said["actor"] == "alice"
    one = {"inserted": 1, "updated": 0, "deleted": 0}
    assert said["tables"] == {"person": one, "knows": one}
    assert ("Eve", 31) in rows_of(project, "person")
    assert ("Eve", "Ann") in rows_of(project, "knows")


def test_step_2_a_refused_mutation_leaves_nothing_and_the_next_one_works(
    home: Tables, project: tm.Project
) -> None:
    before, files, history = project.heads(), home.files(), project.commits(limit=1000)
    opened = asked(project, "SELECT id FROM fragments ORDER BY id")
    refused = home.mutate(person("Zed", 1), knows("Zed", "Missing"))
    assert (refused.code, refused.json["error"]["code"]) == (1, "mutation_refused"), refused
    assert refused.json["error"]["statement"] == 2
    assert "Missing" in refused.json["error"]["message"]
    mixed = home.mutate(person("Zed", 1), delete("person", "name = 'Bob'"))
    assert (mixed.code, mixed.json["error"]["code"]) == (2, "mixed_mutation"), mixed
    assert project.heads() == before
    assert project.commits(limit=1000) == history
    assert home.files() == files
    assert asked(project, "SELECT id FROM fragments ORDER BY id") == opened
    assert "Zed" not in {name for name, _ in rows_of(project, "person")}
    project.mutate([person("Frank", 50)])
    assert project.heads() == moved(before, person=1)


def conflict(table: str, expected: int, actual: int) -> dict[str, object]:
    """The body of O6, and not a word more."""
    return {
        "error": f"dataset {table!r} is at version {actual}; version {expected} was expected.",
        "code": "conflict",
        "manifest_conflict": {"table_key": table, "expected": expected, "actual": actual},
    }


def test_step_3_of_two_updates_that_expect_the_same_version_one_wins(
    home: Tables, project: tm.Project
) -> None:
    before = project.heads()
    at = before["person"]
    replies = together(
        home,
        [[update("person", "name = 'Ann'", age=age)] for age in (91, 92)],
        {"person": at},
    )
    assert sorted(code for code, _ in replies) == [0, 4]
    [(_, won)] = [reply for reply in replies if reply[0] == 0]
    [(_, lost)] = [reply for reply in replies if reply[0] == 4]
    assert json.loads(lost) == conflict("person", at, at + 1)
    assert project.heads() == moved(before, person=1)
    assert json.loads(won)["versions"] == {"person": at + 1}


def test_step_3_of_six_racing_writers_of_two_tables_one_wins(
    home: Tables, project: tm.Project
) -> None:
    before, history = project.heads(), project.commits(limit=1000)
    people = rows_of(project, "person")
    names = [f"Racer{n}" for n in range(6)]
    replies = together(home, [[person(n, 1), knows(n, "Ann")] for n in names], before)
    assert sorted(code for code, _ in replies) == [0, 4, 4, 4, 4, 4]
    for code, said in replies:
        if code:
            found = json.loads(said)["manifest_conflict"]
            table, at = found["table_key"], before[found["table_key"]]
            assert json.loads(said) == conflict(table, at, at + 1)
    assert project.heads() == moved(before, person=1, knows=1)
    assert len(project.commits(limit=1000)) == len(history) + 1
    [winner] = {name for name, _ in rows_of(project, "person") - people}
    assert (winner, "Ann") in rows_of(project, "knows")
    assert not rows_of(project, "knows") & {(n, "Ann") for n in names if n != winner}


def together(
    home: Tables, mutations: list[list[Statement]], expect: dict[str, int]
) -> list[tuple[int, str]]:
    """Exit code and output of processes that were started at once."""
    words = [word for name, at in expect.items() for word in ("--expect", f"{name}={at}")]
    files = [home.file(*statements) for statements in mutations]
    running = [home.start("mutate", file, *words, "--json") for file in files]
    return [(code, out) for code, out, _ in (one.wait(120) for one in running)]


def test_step_4_a_killed_mutation_is_all_there_or_not_at_all(
    home: Tables, project: tm.Project
) -> None:
    versions = {d.name: project.versions(d.name) for d in project.datasets()}
    content = {name: rows_of(project, name) for name in versions}
    survived, dice = 0, random.Random()
    for n in range(KILLS):
        before, files = project.heads(), home.files()
        # The first one dies for certain between its files and its commit; others may be faster.
        place = {"TALLYMAN_CRASH_AT": "metadata_written"} if n == 0 else {}
        mutation = home.file(person(f"Kim{n}", n), knows(f"Kim{n}", "Ann"))
        running = home.start("mutate", mutation, **place)
        wait_for_a_file(home, files, running)
        time.sleep(dice.uniform(0, 0.25) * (n % 2))
        running.kill()
        there = rows_of(project, "person") >= {(f"Kim{n}", n)}
        assert there == ((f"Kim{n}", "Ann") in rows_of(project, "knows"))
        assert project.heads() == (moved(before, person=1, knows=1) if there else before)
        survived += there
    assert asked(project, "SELECT count(*) AS n FROM runs") == [{"n": 0}]
    orphans = home.files() - reachable(project)
    assert orphans, f"{survived} of {KILLS} were faster than their killer"
    seen = home.ok("cleanup", "--older-than", "0s")
    assert not seen["confirmed"]
    listed = [place for one in seen["datasets"] for place in one["orphans"]]
    assert all(any(f"warehouse/{o}".startswith(place) for place in listed) for o in orphans)
    assert home.files() - reachable(project) == orphans, "a preview removed something"
    assert home.ok("cleanup")["datasets"] == [], "what is young is spared"
    gone = home.ok("cleanup", "--older-than", "0s", "--confirm")
    assert gone["confirmed"]
    assert sum(one["bytes_removed"] for one in gone["datasets"]) > 0
    assert home.files() == reachable(project)
    for name, listed_before in versions.items():
        assert rows_of(project, name, listed_before[0].ordinal) == content[name]
    all_intact(project)
    project.mutate([person("Last", 1), knows("Last", "Ann")])


def wait_for_a_file(home: Tables, known: set[str], running: Running) -> None:
    for _ in range(3000):
        if home.files() - known or not running.process.is_alive():
            return
        time.sleep(0.01)
    raise AssertionError("no file and no end in 30 s")


def test_step_5_a_write_is_not_a_run_and_nobody_has_to_publish_or_abort_it(
    home: Tables, project: tm.Project
) -> None:
    before = project.heads()
    project.mutate([person("Pat", 1)])
    assert "run" not in {group.name for group in app.registered_groups}, "it has verbs"
    said = home.tallyman("run", "abort")
    assert said.code == 2, said
    tables = {r["tablename"] for r in asked(project, "SELECT tablename FROM pg_tables")}
    columns = asked(project, "SELECT column_name FROM information_schema.columns")
    names = tables | {row["column_name"] for row in columns if not row["column_name"].isupper()}
    ours = {n for n in names if not n.startswith(("pg_", "foreign_", "sql_"))}
    assert not {n for n in ours if re.search(r"staging|__run__|run_record|(^|_)branch", n)}
    assert not tables & {"actors", "branches", "run_records", "transactions", "intents"}
    assert asked(project, "SELECT id FROM runs") == []
    assert project.heads() == moved(before, person=1)
