"""A real collector of lineage events on this machine, which can be unwell."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DROP, HANG = "drop", "hang"
Answer = int | str
Told = tuple[str, str]
"""Of an event: its run and its job, which numbers it."""


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


@contextmanager
def serving() -> Iterator[Callable[..., Collector]]:
    """Yield what starts another collector; all of them end with the block."""
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
