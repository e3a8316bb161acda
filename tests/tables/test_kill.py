"""kill -9 at every point a mutation passes: readers see the old state or the new one, cleanup
removes the rest, and the next mutation is not in anybody's way."""

from __future__ import annotations

import signal

import pytest

import tallyman as tm
from tallyman import faults
from tallyman.faults import Point
from tests.tables.conftest import (
    Tables,
    all_intact,
    asked,
    knows,
    person,
    reachable,
    rows_of,
)

# Two tables: whatever happens once for each can fail before and after the other.
PLACES = {
    Point.FRAGMENT_OPENED: ("fragment_opened@1", "fragment_opened@2"),
    Point.FRAGMENT_DESCRIBED: ("fragment_staged@1", "fragment_staged@2"),
    Point.METADATA_WRITTEN: ("metadata_written",),
    Point.COMMITTED: ("committed",),
}
MUTATION = [person("Eve", 1), knows("Eve", "Ann")]


@pytest.mark.parametrize("place", [place for some in PLACES.values() for place in some])
def test_a_mutation_that_was_killed_is_there_whole_or_not_at_all(
    home: Tables, project: tm.Project, place: str
) -> None:
    project.mutate([person("Cid", 5), knows("Cid", "Bob")])
    old = {name: rows_of(project, name) for name in ("person", "knows")}
    assert project.heads() == {"person": 2, "knows": 1}
    assert home.files() == reachable(project)

    killed = home.forked("mutate", home.file(*MUTATION), TALLYMAN_CRASH_AT=place)
    assert killed.code == -signal.SIGKILL, str(killed)
    done = place == "committed"
    new = {"person": old["person"] | {("Eve", 1)}, "knows": old["knows"] | {("Eve", "Ann")}}
    assert project.heads() == ({"person": 3, "knows": 2} if done else {"person": 2, "knows": 1})
    assert {name: rows_of(project, name) for name in old} == (new if done else old)
    assert len(project.commits()) == (3 if done else 2)
    left = home.files() - reachable(project)
    assert bool(left) == (place not in ("fragment_opened@1", "committed")), left

    project.mutate([person("Fay", 2), knows("Fay", "Ann")])
    assert project.heads() == ({"person": 4, "knows": 3} if done else {"person": 3, "knows": 2})
    latest = {name: rows_of(project, name) for name in old}
    base = new if done else old
    assert latest["person"] == base["person"] | {("Fay", 2)}
    assert latest["knows"] == base["knows"] | {("Fay", "Ann")}

    seen = project.cleanup(older_than_s=0)
    assert home.files() - reachable(project) == left, "a preview removed something"
    assert {place for one in seen for place in one.places} >= {
        home.warehouse / file for file in left if "metadata/" in file
    }
    project.cleanup(older_than_s=0, confirm=True)
    assert home.files() == reachable(project)
    pending = "SELECT id FROM fragments WHERE staged_at IS NULL AND purged_at IS NULL"
    assert asked(project, pending) == []
    assert project.cleanup(older_than_s=0, confirm=True) == []
    all_intact(project)
    assert rows_of(project, "person", 2) == old["person"]
    if not done:
        project.mutate(MUTATION)  # what was killed can be said again
        assert ("Eve", "Ann") in rows_of(project, "knows")


def test_these_are_all_the_points_a_mutation_passes(
    project: tm.Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[Point] = []
    monkeypatch.setattr(faults, "reach", passed.append)
    project.mutate(MUTATION)
    assert {point: passed.count(point) for point in passed} == {
        point: len(places) for point, places in PLACES.items()
    }


def test_every_version_a_killed_process_left_behind_is_verified_by_the_command(
    home: Tables, project: tm.Project
) -> None:
    killed = home.forked("mutate", home.file(*MUTATION), TALLYMAN_CRASH_AT=Point.METADATA_WRITTEN)
    assert killed.code == -signal.SIGKILL, str(killed)
    assert project.heads() == {"person": 1, "knows": 0}
    for name, version in project.heads().items():
        for ordinal in range(1, version + 1):
            said = home.ok("verify", "dataset", name, "--version", str(ordinal))
            assert (said["intact"], said["damaged"]) == (True, [])


def test_a_mutation_whose_files_were_cleaned_up_meanwhile_is_refused_not_half_published(
    home: Tables, project: tm.Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, files = project.heads(), home.files()

    def clean(point: Point) -> None:
        if point is Point.FRAGMENT_DESCRIBED:
            with home.open() as other:
                other.cleanup(older_than_s=0, confirm=True)

    monkeypatch.setattr(faults, "reach", clean)
    with pytest.raises(tm.TallymanError) as refused:
        project.mutate([person("Eve", 1)])
    assert refused.value.code == "fragment_gone"
    monkeypatch.undo()
    assert project.heads() == before
    assert home.files() - reachable(project) == files - reachable(project)
    project.mutate([person("Eve", 1)])
    all_intact(project)
