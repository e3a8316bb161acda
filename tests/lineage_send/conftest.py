"""A project with events in its spool."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tallyman.control.delivery.outbox import Outbox
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Database
from tallyman.registry.spool import Spool, SpoolState
from tests.world.collector import Told
from tests.world.home import Home

NAME = "shop"
OWNER = Owner("default", NAME)
ADD_RUN = """
    INSERT INTO runs (id, name, org, project, status, folder, actor, started_at)
    VALUES (%(id)s, %(id)s::text, 'default', 'shop', 'success', %(id)s::text, 'test', now())
    ON CONFLICT DO NOTHING
"""


def event_of(run: uuid.UUID, number: int) -> LineageEvent:
    when = f"2026-01-01T00:00:00.{number:06d}Z"
    return LineageEvent(
        {
            "eventType": "OTHER",
            "eventTime": when,
            "producer": "https://example.org/tallyman",
            "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
            "run": {"runId": str(run), "facets": {}},
            "job": {"namespace": NAME, "name": f"job{number:04d}", "facets": {}},
            "inputs": [],
            "outputs": [],
        }
    )


def spool_events(database: Database, run: uuid.UUID, count: int, first: int = 0) -> list[Told]:
    """Each in a transaction of its own, as a run adds them."""
    with database.transaction() as tx:
        tx.execute(ADD_RUN, {"id": run})
    for number in range(first, first + count):
        with database.transaction() as tx:
            Spool(tx).add(OWNER, run, [event_of(run, number)])
    return [(str(run), f"job{number:04d}") for number in range(first, first + count)]


@dataclass
class SpoolHome(Home):
    """A project with events that wait to be sent."""

    @property
    def database(self) -> Database:
        return self.project.database

    @property
    def outbox(self) -> Outbox:
        return Outbox.of(self.database, OWNER, self.path)

    def answer(self, *words: str) -> tuple[int, Any]:
        """Exit code and JSON."""
        reply = self.tallyman(*words)
        return reply.code, reply.json

    def spool(self, count: int, first: int = 0) -> list[Told]:
        """Of a new run."""
        return spool_events(self.database, uuid.uuid4(), count, first)

    def state(self) -> SpoolState:
        with self.database.transaction() as tx:
            return Spool(tx).state(OWNER)


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("OPENLINEAGE", "TALLYMAN_")):
            monkeypatch.delenv(name)
    empty = tmp_path / "user"
    empty.mkdir()
    monkeypatch.setenv("HOME", str(empty))
    monkeypatch.chdir(empty)


@pytest.fixture
def shop(tmp_path: Path, empty_database: Callable[[], str]) -> Iterator[SpoolHome]:
    home = tmp_path / "shop"
    home.mkdir()
    (home / "tallyman.yaml").write_text(f"name: {NAME}\ndatabase: {empty_database()}\n")
    made = SpoolHome(home)
    yield made
    made.close()
