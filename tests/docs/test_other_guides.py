"""Guides with a project of their own: every command prints what is shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.docs.conftest import chosen

GUIDES = ["check", "history", "outputs", "pipelines", "tables", "trace", "why", "workers", "yaml"]


@pytest.mark.parametrize("guide", chosen(GUIDES, 2))
def test_a_guide_shows_what_its_commands_print(guide: str, check: Callable[[str], None]) -> None:
    check(f"docs/guides/{guide}.md")
