"""README, the first project, and the guides that go on with it: every command prints what is
shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conftest import FinishedRun
from tests.docs.conftest import Walk, chosen
from tests.docs.play import State

GUIDES = [
    "first-project",
    "openlineage",
    "pipeline-versions",
    "redaction",
    "rejections",
    "report",
    "reproduce",
    "seals",
    "versions",
]


def test_the_readme_shows_what_its_commands_print(
    walk: Walk, airline: FinishedRun, check: Callable[[str], None]
) -> None:
    walk.answers["demo"] = airline.text.rstrip("\n")
    walk.states["demo"] = State(airline.project.with_name("walk"), Path("airline-demo"))
    check("README.md")


@pytest.mark.parametrize("guide", chosen(GUIDES, 3))
def test_a_guide_of_the_walkthrough_shows_what_its_commands_print(
    guide: str, check: Callable[[str], None]
) -> None:
    check(f"docs/guides/{guide}.md")
