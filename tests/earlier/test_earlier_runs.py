"""Runs made before a change of how runs are kept: every answer about them is the same as then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.earlier.packed import HERE, unpack
from tests.earlier.project import QUESTIONS
from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.scale import some

PACKS = sorted(file.name for file in HERE.glob("*.tar.xz"))
PASSING = {"duration_ms", "seconds", "started_at", "ended_at"}
"""Facts of a command that makes something, which are others each time."""


@pytest.fixture(scope="module", params=PACKS)
def earlier(request: pytest.FixtureRequest, homes: Homes) -> tuple[Home, list[Any]]:
    home = homes.make(Home, "earlier")
    return home, unpack(HERE / request.param, home.path, home.project.database.url())


def test_a_pack_answers_every_question(earlier: tuple[Home, list[Any]]) -> None:
    assert [tuple(words) for words, _ in earlier[1]] == list(QUESTIONS)


@pytest.mark.parametrize(
    "number", some(range(len(QUESTIONS)), 6), ids=lambda n: " ".join(QUESTIONS[n])
)
def test_the_answer_is_the_same_as_then(earlier: tuple[Home, list[Any]], number: int) -> None:
    home, answers = earlier
    words, then = answers[number]
    now = home.tallyman(*words).json
    assert known_then(now, then) == known_then(then, then)


def test_pipeline_versions_of_the_time_are_listed_without_a_plan(
    earlier: tuple[Home, list[Any]],
) -> None:
    home, _ = earlier
    listed = home.ok("pipeline-versions")
    assert {version["plan"] for version in listed["versions"]} == {"not kept"}
    assert "the plan of the active version was not kept" in listed["pipeline"]["run"]
    for words in (["compile", "-v", "active"], ["run", "--pipeline-version", "active"]):
        reply = home.tallyman(*words)
        assert (reply.code, reply.json["error"]["code"]) == (2, "plan_not_kept")


def known_then(now: Any, then: Any) -> Any:
    """Leave out facts that were added to an answer since, and those that are others each time."""
    if isinstance(now, dict) and isinstance(then, dict):
        names = (name for name in now if name in then and name not in PASSING)
        return {name: known_then(now[name], then[name]) for name in names}
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        return [known_then(*both) for both in zip(now, then, strict=True)]
    return now
