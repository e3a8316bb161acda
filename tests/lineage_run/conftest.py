"""The scenario's project and a collector; every event that a run left is checked as it is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lineage_events.validation import valid
from tests.world.collector import Collector
from tests.world.home import Home
from tests.world.homes import Homes
from tests.world.numbers import PIPELINE, NumbersHome

ENDS = ("COMPLETE", "FAIL", "ABORT")
Event = dict[str, Any]


@pytest.fixture(scope="module")
def new_home(homes: Homes) -> Callable[[], NumbersHome]:
    return lambda: homes.make(NumbersHome, "scenario").pipeline(PIPELINE)


@pytest.fixture
def home(new_home: Callable[[], NumbersHome]) -> NumbersHome:
    return new_home().numbers("2025-01-01", 1, 2, 3, 4, 5)


@pytest.fixture
def collector(collectors: Callable[..., Collector]) -> Collector:
    return collectors()


@dataclass(frozen=True)
class Told:
    """The lineage folder of one run."""

    folder: Path

    @classmethod
    def by(cls, home: Home, run: str) -> Told:
        told = cls(home.folder(run))
        for event in told.events:
            valid(event)
        return told

    @property
    def events(self) -> list[Event]:
        lines = (self.folder / "lineage" / "job_events.jsonl").read_text().split("\n")
        return [json.loads(line) for line in lines if line]

    def file(self, name: str) -> Event:
        return json.loads((self.folder / "lineage" / f"run_{name}.json").read_text())

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "lineage").iterdir())

    def of(self, job: str) -> list[Event]:
        return [event for event in self.events if event["job"]["name"] == job]

    def words(self, job: str) -> list[str]:
        return [event["eventType"] for event in self.of(job)]

    def starts_and_ends(self) -> dict[str, Counter[str]]:
        """By run: how often each was told."""
        found: dict[str, Counter[str]] = {}
        for event in self.events:
            found.setdefault(event["run"]["runId"], Counter())[event["eventType"]] += 1
        return found


def parent(event: Event) -> str:
    return str(event["run"]["facets"]["parent"]["run"]["runId"])
