"""What the tests of several pipelines share: project folders of their own, one database."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.world.home import Home
from tests.world.homes import INTERPRETED, Homes

NewPipeline = Callable[..., Home]


@pytest.fixture(scope="module")
def new_pipeline(homes: Homes) -> NewPipeline:
    """Make a project of this name, in the database of the first one."""
    first: list[Home] = []

    def make(name: str, settings: str = "") -> Home:
        home = homes.make(Home, name, settings + INTERPRETED)
        if first:
            file = home.path / "tallyman.yaml"
            address = first[0].path.joinpath("tallyman.yaml").read_text().splitlines()[0]
            file.write_text("\n".join([address, *file.read_text().splitlines()[1:]]) + "\n")
        first.append(home)
        return home

    return make
