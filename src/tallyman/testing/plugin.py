"""The pytest plugin: the fixture `tally`. Loaded by pytest, through the entry point `pytest11`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tallyman import testing

if TYPE_CHECKING:
    from tallyman.testing.tally_kit import TallyKit


@pytest.fixture
def tally() -> Iterator[TallyKit]:
    """Run assets and pipelines on rows given in the test; what they leave goes with the test."""
    with testing.TallyKit() as opened:
        yield opened
