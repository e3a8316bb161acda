from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import pytest

from tests.world.home import Home
from tests.world.homes import Homes

THREE = """\
import tallyman as tm

raw = tm.source("raw", path="data/raw.jsonl", format="json", key="id", schema="id string, n int")


@tm.asset(key="id")
def a(raw):
    return raw


@tm.asset(key="id")
def b(a):
    return a.withColumn("n", "n * 2")


@tm.asset(key="id")
def c(b):
    return b.withColumn("n", "n + 1")
"""


@dataclass
class ThreeHome(Home):
    """A project of three assets, each of which reads the one before."""

    def numbers(self, *values: int) -> Self:
        return self.data("raw.jsonl", *({"id": str(v), "n": v} for v in values))


@pytest.fixture(scope="module")
def new_home(homes: Homes) -> Callable[[], ThreeHome]:
    return lambda: homes.make(ThreeHome, "published").pipeline(THREE)


@pytest.fixture
def home(new_home: Callable[[], ThreeHome]) -> ThreeHome:
    return new_home()
