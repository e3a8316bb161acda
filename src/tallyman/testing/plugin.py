"""The pytest plugin: the fixture `tally`. Loaded by pytest, through the entry point `pytest11`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tallyman import testing

if TYPE_CHECKING:
    from tallyman.testing.tally import Tally


@pytest.fixture
def tally() -> Iterator[Tally]:
    """Run assets and pipelines on rows given in the test; what they leave goes with the test."""
    with testing.Tally() as opened:
        yield opened
