"""A project with events in its spool, and a real collector on this machine that can be unwell."""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tallyman.control.delivery.outbox import Outbox
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.registry.database import Database
from tallyman.registry.spool import Spool, SpoolState
from tests.forked import Running, command

NAME = "shop"
ADD_RUN = """
    INSERT INTO runs (id, name, project, status, folder, actor, started_at)
    VALUES (%(id)s, %(id)s::text, 'shop', 'success', %(id)s::text, 'test', now())
    ON CONFLICT DO NOTHING
"""
DROP, HANG = "drop", "hang"
Answer = int | str
Told = tuple[str, str]
"""Of an event: its run and its job, which numbers it."""


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
            Spool(tx).add(NAME, run, [event_of(run, number)])
    return [(str(run), f"job{number:04d}") for number in range(first, first + count)]


def until(done: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


@dataclass
class Collector:
    """`answer(n, told)` is the status of the n-th request, or DROP or HANG. 2xx takes the event."""

    answer: Callable[[int, Told], Answer] = lambda _n, _told: 201
    says: str = ""
    key: str | None = None
    takes_s: float = 0
    """How long it works on an event it has already taken before it says so."""
    taken: list[Told] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    released: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def hear(self, body: dict[str, Any], key: str | None) -> Answer:
        told = (body["run"]["runId"], body["job"]["name"])
        with self.lock:
            self.requests += 1
            self.at_once += 1
            self.most_at_once = max(self.at_once, self.most_at_once)
            if self.key and key != f"Bearer {self.key}":
                return 401
            answer = self.answer(self.requests, told)
            if isinstance(answer, int) and answer < 300:
                self.taken.append(told)
                self.bodies.append(body)
        if self.takes_s:
            self.released.wait(self.takes_s)
        return answer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    collector: Collector

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            text = gzip.decompress(text)
        collector = self.collector
        answer = collector.hear(json.loads(text), self.headers.get("Authorization"))
        if answer == HANG:
            collector.released.wait(60)
        with collector.lock:
            collector.at_once -= 1
        if isinstance(answer, str):
            self.close_connection = True
            return
        said = collector.says.encode()
        self.send_response(answer)
        self.send_header("Content-Length", str(len(said)))
        if 300 <= answer < 400:
            self.send_header("Location", f"{collector.url}/elsewhere")
        self.end_headers()
        self.wfile.write(said)

    def do_GET(self) -> None:
        """What a POST that was redirected becomes; it says yes to everything."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """A client that was killed is part of the test."""


@pytest.fixture
def collectors() -> Iterator[Callable[..., Collector]]:
    servers: list[tuple[Server, Collector]] = []

    def start(**how: Any) -> Collector:
        collector = Collector(**how)
        handler = type("Handler", (Handler,), {"collector": collector})
        server = Server(("127.0.0.1", 0), handler)
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=partial(server.serve_forever, 0.05), daemon=True).start()
        servers.append((server, collector))
        return collector

    yield start
    for server, collector in servers:
        collector.released.set()
        server.shutdown()
        server.server_close()


@dataclass(frozen=True)
class Shop:
    """The project, its database, and the installed command."""

    home: Path
    database: Database

    @property
    def outbox(self) -> Outbox:
        return Outbox.of(self.database, NAME, self.home)

    def spool(self, count: int, first: int = 0) -> list[Told]:
        """Of a new run."""
        return spool_events(self.database, uuid.uuid4(), count, first)

    def state(self) -> SpoolState:
        with self.database.transaction() as tx:
            return Spool(tx).state(NAME)

    def start(self, *words: str) -> Running:
        return Running(self.home, os.environ, partial(command, *words))

    def tallyman(self, *words: str) -> tuple[int, Any, str]:
        """Exit code, JSON, stderr."""
        code, out, err = self.start(*words, "--json").wait()
        return code, json.loads(out), err


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
def shop(tmp_path: Path, with_database: Callable[[Path], Path]) -> Iterator[Shop]:
    home = tmp_path / "shop"
    home.mkdir()
    (home / "tallyman.yaml").write_text(f"name: {NAME}\n")
    database = Database(None, with_database(home))
    yield Shop(home, database)
    database.close()
