"""Versions, names, going back and cleaning up: history only grows, and only what nothing can
reach goes away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import tallyman as tm
from tallyman import faults
from tallyman.errors import (
    InUse,
    KeyConflict,
    MutationRefused,
    NameTaken,
    NotFound,
    SingleProducer,
    UsageError,
)
from tallyman.faults import Point
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.garbage import Garbage
from tallyman.registry.version.snapshots import Snapshots
from tests.tables.conftest import (
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
from tests.world.reply import Reply
from tests.world.scale import some

FIRST = {("Ann", 31), ("Bob", 42)}


def refused(reply: Reply, code: int, name: str) -> None:
    assert (reply.code, reply.json["error"]["code"]) == (code, name), str(reply)


# ---- what the command shows ---------------------------------------------------------------


def test_versions_commits_and_old_rows_are_shown(home: Tables, project: tm.Project) -> None:
    project.mutate([knows("Ann", "Bob")], message="they met")
    project.mutate([update("person", "name = 'Ann'", age=32)])
    newest, oldest = home.ok("versions", "person")
    assert [newest["version"], newest["state"], newest["rows"]] == [2, "current", 2]
    assert [oldest["version"], oldest["state"], oldest["operation"]] == [1, "", "mutate"]
    listed = home.ok("commits", "--dataset", "knows")
    assert [(c["moved"], c["message"]) for c in listed] == [(["knows v1"], "they met")]
    assert home.ok("read", "person", "--version", "1") == [
        {"name": "Ann", "age": 31},
        {"name": "Bob", "age": 42},
    ]
    refused(home.tallyman("read", "person", "--version", "3"), 2, "not_found")
    assert rows_of(project, "person", 2) == {("Ann", 32), ("Bob", 42)}


def test_a_mutation_that_changes_nothing_makes_no_commit(home: Tables, project: tm.Project) -> None:
    files = home.files()
    for statement in (
        update("person", "name = 'Ann'", age=31),
        update("person", "name = 'Nobody'", age=1),
        delete("person", "age > 1000"),
    ):
        written = project.mutate([statement])
        assert (written.commit, written.changed) == (None, {})
    assert (project.heads(), home.files()) == ({"person": 1, "knows": 0}, files)
    assert len(project.commits()) == 1


def test_a_table_may_lose_a_whole_fragment_and_need_no_new_one(
    home: Tables, project: tm.Project
) -> None:
    project.mutate([person("Eve", 7)])
    project.mutate([knows("Ann", "Bob")])
    project.mutate([delete("person", "name = 'Eve'")])
    assert rows_of(project, "person") == FIRST
    assert project.heads() == {"person": 3, "knows": 1}
    project.cleanup(older_than_s=0, confirm=True)
    assert home.files() == reachable(project)
    project.mutate([delete("knows", "true")])
    assert rows_of(project, "knows") == set()
    all_intact(project)


def test_expecting_a_version_of_a_table_that_is_not_there_is_told(project: tm.Project) -> None:
    with pytest.raises(NotFound, match="persn"):
        project.mutate([person("Eve", 7)], expected_versions={"persn": 1})


# ---- names --------------------------------------------------------------------------------


def test_a_snapshot_stays_where_it_is(home: Tables, project: tm.Project) -> None:
    home.ok("snapshot", "person", "people_2026")
    project.mutate([person("Eve", 7)])
    assert rows_of(project, "people_2026") == FIRST
    newest, oldest = home.ok("versions", "person")
    assert (newest["pinned_by"], oldest["pinned_by"]) == ("", "people_2026")
    assert project.snapshot("person", "people_2026", version=1).ordinal == 1, "told twice"
    with pytest.raises(NameTaken):
        project.snapshot("person", "people_2026")
    assert rows_of(project, "people_2026") == FIRST
    with pytest.raises(UsageError):
        project.rows("people_2026", 2)


def test_snapshots_and_datasets_share_their_names(project: tm.Project) -> None:
    project.mutate([knows("Ann", "Bob")])
    project.snapshot("person", "then")
    for taken in (
        lambda: project.snapshot("person", "knows"),
        lambda: project.rename("person", "knows"),
        lambda: project.rename("person", "then"),
    ):
        with pytest.raises(NameTaken):
            taken()
    assert set(project.heads()) == {"person", "knows"}


def test_names_are_short_and_plain(project: tm.Project) -> None:
    for bad in ("a" * 129, "A", "aB", "1a", "_a", "", "a-b", "a.b", "../a", "a\n", "ä", "a b"):
        with pytest.raises(UsageError):
            project.snapshot("person", bad)
        with pytest.raises(UsageError):
            project.rename("person", bad)
    for good in ("a" * 128, "a", "a_1"):
        project.snapshot("person", good)
    project.rename("person", "b" * 128)
    assert project.heads() == {"b" * 128: 1}


def test_renaming_changes_a_name_and_nothing_else(home: Tables, project: tm.Project) -> None:
    [before] = project.datasets()
    versions, files = project.versions("person"), home.files()
    assert home.ok("rename", "person", "people") == {
        "dataset": "people",
        "id": str(before.id),
        "published": True,
    }
    assert project.versions("people") == versions
    assert home.files() == files
    assert len(project.commits()) == 1
    project.mutate([person("Eve", 7)], expected_versions={"person": 1})
    assert rows_of(project, "people", 2) == FIRST | {("Eve", 7)}
    assert project.heads() == {"people": 2}
    with pytest.raises(tm.TallymanError) as conflict:
        project.mutate([person("Fay", 7)], expected_versions={"person": 1})
    assert conflict.value.code == "conflict"


def test_no_name_of_a_dataset_is_in_any_path_or_file_of_the_warehouse(
    home: Tables, project: tm.Project
) -> None:
    project.mutate([knows("Ann", "Bob")])
    project.rename("person", "renamed_people")
    project.snapshot("knows", "friends_then")
    project.mutate([person("Eve", 7), knows("Eve", "Ann")])
    names = ("person", "people", "knows", "friends", "social")
    places = list(home.warehouse.rglob("*"))
    assert {"part-00000.parquet", "manifest.avro"} <= {place.name for place in places}
    for place in places:
        below = str(place.relative_to(home.warehouse))
        assert not any(name in below for name in names), below
        for part in Path(below).parts:
            if part not in ("org", "default", "dataset", "version", "metadata"):
                assert part in ("part-00000.parquet", "manifest.avro") or UUID(part.split(".")[0])
    for place in home.warehouse.rglob("*.metadata.json"):
        assert not any(name in place.read_text().split(str(home.warehouse))[0] for name in names)


def test_what_is_hidden_is_still_there_for_the_project(home: Tables, project: tm.Project) -> None:
    shown = "SELECT table_name FROM iceberg_tables"
    assert asked(project, shown) == [{"table_name": "person"}]
    assert home.ok("hide", "person")["published"] is False
    assert asked(project, shown) == []
    project.mutate([person("Eve", 7)])
    assert asked(project, shown) == []
    assert rows_of(project, "person") == FIRST | {("Eve", 7)}
    assert home.ok("expose", "person")["published"] is True
    assert asked(project, shown) == [{"table_name": "person"}]


# ---- one producer -------------------------------------------------------------------------


def test_a_dataset_has_one_producer_and_many_readers(
    home: Tables, project: tm.Project, new_home: Callable[..., Tables]
) -> None:
    other = new_home(name="rival", database=project.database.url())
    refused(other.tallyman("mutate", other.file(person("Eve", 7))), 4, "single_producer")
    assert project.heads() == {"person": 1}
    assert other.files() == set()
    with (other.path / "tallyman.yaml").open("a") as settings:
        settings.write(f"warehouse: {home.warehouse}\n")
    with other.open() as reader:
        assert rows_of(reader, "person") == FIRST, "everybody may read"


def test_of_two_first_producers_one_keeps_the_name(
    home: Tables, new_home: Callable[..., Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one is still at its first version, the other takes the name, and is as slow."""
    with (
        home.open() as first,
        new_home(name="rival", database=first.database.url()).open() as rival,
    ):

        def take(point: Point) -> None:
            if point is Point.FRAGMENT_OPENED:
                monkeypatch.undo()
                with pytest.raises(KeyConflict):
                    rival.mutate([person("Eve", 7), person("Eve", 7)])

        monkeypatch.setattr(faults, "reach", take)
        with pytest.raises(SingleProducer):
            first.mutate([person("Ann", 31)])
        assert rival.heads() == {"person": 0}
        assert first.commits() == []
        assert home.files() == set()
        rival.mutate([person("Eve", 7)])
        with pytest.raises(SingleProducer):
            first.mutate([person("Ann", 31)])
        assert rows_of(rival, "person") == {("Eve", 7)}


def test_a_dataset_is_known_as_it_is_declared_now(project: tm.Project) -> None:
    [was] = project.datasets()
    wanted = replace(was, key_columns=("name", "age"), partition_column="age")
    found = project.database.durably(lambda tx: Datasets(tx).ensure(wanted))
    assert found == wanted
    assert project.datasets() == [wanted]


# ---- going back ---------------------------------------------------------------------------


def test_a_dataset_goes_back_to_a_version_by_a_new_one(home: Tables, project: tm.Project) -> None:
    project.mutate([person("Eve", 7), knows("Ann", "Bob")])
    files = home.files()
    made = home.ok("rollback", "person", "--to", "1", TALLYMAN_ACTOR="carol")
    assert made["versions"] == {"person": 3}
    [commit, *rest] = project.commits()
    assert (str(commit.id), commit.kind, commit.actor) == (made["commit"], "rollback", "carol")
    assert len(rest) == 2
    assert rows_of(project, "person") == rows_of(project, "person", 1) == FIRST
    assert rows_of(project, "person", 2) == FIRST | {("Eve", 7)}
    assert project.heads() == {"person": 3, "knows": 1}
    assert home.files() == files, "no file is written"
    refused(home.tallyman("rollback", "person", "--to", "3"), 2, "usage_error")
    refused(home.tallyman("rollback", "person", "--to", "9"), 2, "not_found")
    project.rollback("person", to=2)
    assert rows_of(project, "person") == FIRST | {("Eve", 7)}
    all_intact(project)


def test_a_table_does_not_go_back_to_before_somebody_whom_another_one_names(
    home: Tables, project: tm.Project
) -> None:
    project.mutate([person("Eve", 7), knows("Eve", "Ann")])
    refused(home.tallyman("rollback", "person", "--to", "1"), 1, "mutation_refused")
    assert project.heads() == {"person": 2, "knows": 1}
    project.mutate([delete("knows", "true")])
    project.rollback("person", to=1)
    with pytest.raises(MutationRefused):
        project.rollback("knows", to=1)
    assert (rows_of(project, "person"), rows_of(project, "knows")) == (FIRST, set())


def test_everything_goes_back_to_a_commit_also_what_was_not_there(
    home: Tables, project: tm.Project
) -> None:
    first = project.commits()[0]
    project.mutate([person("Eve", 7), knows("Eve", "Ann")])
    both = project.commits()[0]
    project.mutate([delete("knows", "true")])
    home.ok("rollback", "--commit", str(first.id)[:8])
    assert project.heads() == {"person": 3, "knows": 3}
    assert rows_of(project, "person") == FIRST
    with pytest.raises(NotFound):
        project.rows("knows")
    assert project.rollback(commit=str(first.id)) is None, "it is like that already"
    made = project.rollback(commit=str(both.id))
    assert made is not None
    assert {m.dataset: (m.ordinal, m.restores) for m in made.moves} == {
        "person": (4, 2),
        "knows": (4, 1),
    }
    assert rows_of(project, "person") == FIRST | {("Eve", 7)}
    assert rows_of(project, "knows") == {("Eve", "Ann")}
    assert len(project.commits()) == 5
    all_intact(project)


def test_a_rollback_of_a_rollback_is_what_it_was(project: tm.Project) -> None:
    for n in range(3):
        project.mutate([person(f"P{n}", n)])
    content = {n: rows_of(project, "person", n) for n in range(1, 5)}
    for to, same in ((2, 2), (4, 4), (5, 2), (6, 4), (1, 1)):
        made = project.rollback("person", to=to)
        assert made is not None
        assert [move.restores for move in made.moves] == [same], "what it is in the end"
        assert rows_of(project, "person") == content[same]
    assert {n: rows_of(project, "person", n) for n in content} == content
    project.mutate([person("New", 1)])
    assert rows_of(project, "person") == content[1] | {("New", 1)}
    all_intact(project)


def test_nobody_goes_back_to_what_was_purged(home: Tables, project: tm.Project) -> None:
    first = project.commits()[0]
    for n in range(2):
        project.mutate([update("person", "true", age=n)])
    project.purge("person", 1)
    refused(home.tallyman("rollback", "person", "--to", "1"), 2, "not_found")
    with pytest.raises(NotFound, match="purged"):
        project.rollback(commit=str(first.id))
    with pytest.raises(NotFound, match="purged"):
        project.rows("person", 1)
    assert project.heads() == {"person": 3}
    assert [row["state"] for row in home.ok("versions", "person")] == ["current", "", "purged"]


# ---- cleaning up --------------------------------------------------------------------------


def test_only_versions_that_nothing_can_reach_are_cleaned_up(
    home: Tables, project: tm.Project
) -> None:
    """v1, v4 oldest; v2 pinned; v3 is current again as v7; v6 is what a rollback goes back to."""
    for n in range(2, 7):
        project.mutate([update("person", "true", age=n)])
    project.snapshot("person", "pinned", version=2)
    project.rollback("person", to=3)
    before, files = rows_of(project, "person"), home.files()
    refused(home.tallyman("cleanup", "--keep-versions", "0"), 2, "usage_error")
    refused(home.tallyman("cleanup", "--older-than", "soon"), 2, "usage_error")
    assert home.ok("cleanup", "--keep-versions", "1")["datasets"] == [], "all of it is young"
    preview = home.ok("cleanup", "--keep-versions", "1", "--older-than", "0s")
    [seen] = preview["datasets"]
    assert sorted(seen["old_versions_removed"]) == [1, 4, 5]
    assert home.files() == files
    assert [v.purged_at for v in project.versions("person")] == [None] * 7
    project.cleanup(keep_versions=4, older_than_s=0, confirm=True)
    assert {v.ordinal for v in project.versions("person") if v.purged_at} == {1}
    project.cleanup(keep_versions=1, older_than_s=0, confirm=True)
    assert {v.ordinal for v in project.versions("person") if v.purged_at} == {1, 4, 5}
    assert home.files() == reachable(project)
    assert rows_of(project, "person") == before == {("Ann", 3), ("Bob", 3)}
    assert rows_of(project, "pinned") == {("Ann", 2), ("Bob", 2)}
    project.rollback("person", to=6)
    assert rows_of(project, "person") == {("Ann", 6), ("Bob", 6)}
    all_intact(project)


def test_a_fragment_that_a_newer_version_still_has_is_not_taken_with_an_old_one(
    home: Tables, project: tm.Project
) -> None:
    for n in range(4):
        project.mutate([person(f"P{n}", n)])
    project.cleanup(keep_versions=1, older_than_s=0, confirm=True)
    assert {v.ordinal for v in project.versions("person") if v.purged_at} == {1, 2, 3}
    assert rows_of(project, "person") == FIRST | {(f"P{n}", n) for n in range(4)}
    assert home.files() == reachable(project)
    all_intact(project)


def test_purging_is_said_twice_and_spares_what_is_in_use(home: Tables, project: tm.Project) -> None:
    for n in range(2, 6):
        project.mutate([update("person", "true", age=n)])
    project.snapshot("person", "pinned", version=2)
    project.rollback("person", to=3)
    refused(home.tallyman("purge", "person", "1"), 2, "usage_error")
    assert rows_of(project, "person", 1) == FIRST
    for ordinal, why in (
        (6, "current"),
        (5, "rollback would return"),
        (3, "current again"),
        (2, "a snapshot names it"),
    ):
        with pytest.raises(InUse, match=why):
            project.purge("person", ordinal)
    refused(home.tallyman("purge", "person", "2", "--confirm"), 4, "in_use")
    assert home.ok("purge", "person", "1", "--confirm")["bytes_removed"] > 0
    assert home.files() == reachable(project)
    with pytest.raises(NotFound):
        project.purge("person", 1)
    all_intact(project)


def test_what_was_restored_may_go_and_its_restoration_stays(
    home: Tables, project: tm.Project
) -> None:
    project.mutate([update("person", "true", age=2)])
    project.rollback("person", to=1)
    for n in (4, 5):
        project.mutate([update("person", "true", age=n)])
    project.purge("person", 1)
    assert home.files() == reachable(project)
    assert rows_of(project, "person", 3) == FIRST
    project.rollback("person", to=3)
    assert rows_of(project, "person") == FIRST
    project.cleanup(keep_versions=1, older_than_s=0, confirm=True)
    assert home.files() == reachable(project)
    all_intact(project)


def test_what_gets_a_name_of_its_own_is_not_purged_at_the_same_moment(
    home: Tables, project: tm.Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (2, 3):
        project.mutate([update("person", "true", age=n)])
    add, ends = Snapshots.add, list[object]()

    def purge() -> None:
        try:
            with home.open() as other:
                ends.append(other.purge("person", 1))
        except InUse as error:
            ends.append(error)

    purging = threading.Thread(target=purge)

    def slowly(self: Snapshots, *given: Any) -> bool:
        purging.start()
        purging.join(0.5)
        return add(self, *given)

    monkeypatch.setattr(Snapshots, "add", slowly)
    project.snapshot("person", "people_then", version=1)
    purging.join()
    assert [type(end) for end in ends] == [InUse]
    assert rows_of(project, "people_then") == FIRST


def test_cleanup_takes_nothing_from_a_mutation_that_begins_meanwhile(
    home: Tables, project: tm.Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fragment's row is there before its files, and waits for what cleanup has locked."""
    known, files = Garbage.known, home.files()
    writer = threading.Thread(target=lambda: project.mutate([person("Eve", 7)]))

    def slowly(self: Garbage, *given: Any) -> set[str]:
        found = known(self, *given)
        writer.start()
        waiting = threading.Event()
        for _ in range(50):
            if any(name.endswith("manifest.avro") for name in home.files() - files):
                break
            waiting.wait(0.01)
        return found

    monkeypatch.setattr(Garbage, "known", slowly)
    with home.open() as other:
        other.cleanup(older_than_s=0, confirm=True)
    writer.join()
    assert rows_of(project, "person") == FIRST | {("Eve", 7)}
    all_intact(project)


# ---- damage -------------------------------------------------------------------------------


@pytest.fixture
def part(home: Tables, project: tm.Project) -> Iterator[Path]:
    """A file that is in versions 1 and 2, and not in 3."""
    [file] = [home.warehouse / f for f in home.files() if f.endswith(".parquet")]
    project.mutate([person("Eve", 7)])
    project.mutate([update("person", "name = 'Ann'", age=1)])
    return file


@pytest.mark.parametrize("how", some(["changed", "truncated", "grown", "missing"], 2))
def test_a_file_that_is_not_what_was_published_is_named(
    home: Tables, project: tm.Project, part: Path, how: str
) -> None:
    content = bytearray(part.read_bytes())
    if how == "changed":
        content[len(content) // 3] ^= 1
    elif how == "truncated":
        del content[-1]
    elif how == "grown":
        content += b"\0"
    part.unlink() if how == "missing" else part.write_bytes(content)
    for ordinal in (1, 2):
        _, [damage] = project.damaged("person", ordinal)
        assert damage.kind == how
        assert str(part).endswith(damage.shown)
    assert project.damaged("person", 3)[1] == []
    if how == "changed":
        said = home.tallyman("verify", "dataset", "person", "--version", "1")
        assert (said.code, said.json["intact"]) == (1, False)
        assert [d["shown"] for d in said.json["damaged"]] == [damage.shown]
        assert home.ok("verify", "dataset", "person")["intact"] is True


# ---- loading ------------------------------------------------------------------------------


def test_a_file_is_appended_merged_or_takes_the_place_of_all(
    home: Tables, project: tm.Project
) -> None:
    more = str(home.path / "more.csv")
    Path(more).write_text("name,age\nBob,43\nEve,7\n")
    refused(home.tallyman("load", "person", more), 4, "key_conflict")
    assert project.heads() == {"person": 1}
    merged = home.ok("load", "person", more, "--mode", "merge", "--expect", "1")
    assert merged["versions"] == {"person": 2}
    assert merged["tables"]["person"] == {"inserted": 1, "updated": 1, "deleted": 0}
    assert rows_of(project, "person") == {("Ann", 31), ("Bob", 43), ("Eve", 7)}
    stale = home.tallyman("load", "person", more, "--mode", "overwrite", "--expect", "1")
    assert (stale.code, stale.json["code"]) == (4, "conflict")
    assert stale.json["manifest_conflict"]["actual"] == 2
    project.load("person", more, mode="overwrite")
    assert rows_of(project, "person") == {("Bob", 43), ("Eve", 7)}
    (home.path / "new.csv").write_text("name,age\nFay,8\nGus,\n")
    project.load("person", home.path / "new.csv")
    assert rows_of(project, "person") == {("Bob", 43), ("Eve", 7), ("Fay", 8), ("Gus", None)}
    assert [c.kind for c in project.commits()] == ["load", "load", "load", "mutate"]
    again = project.load("person", home.path / "new.csv", mode="merge")
    assert again.commit is None, "it is like that already"
    all_intact(project)
