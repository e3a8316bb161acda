"""What manifest, seal, lineage and publication take of a run, timed where the run calls them."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PARTS = {
    "manifest": ["bind.describe:description"],
    "seal": ["seal.seal:seal_of", "seal.seal:place"],
    "lineage": [
        *(f"openlineage.files:Emitter.{n}" for n in ("begun", "started", "ended", "closed")),
        *("openlineage.files:Emitter.record", "delivery.send:Sender.close"),
    ],
    "publication": [
        "target.prepare_fragments:PreparedFragments.prepare",
        "run.journal:Journal.publish",
    ],
}
"""The functions of each part, in `tallyman.control`."""
taken: dict[str, float] = defaultdict(float)
_inside = threading.local()


def watch() -> None:
    """Time all parts, and send events to a collector on this machine, so that sending counts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["OPENLINEAGE_URL"] = f"http://127.0.0.1:{server.server_address[1]}"
    for part, functions in PARTS.items():
        for function in functions:
            module, _, path = function.partition(":")
            owner: Any = importlib.import_module(f"tallyman.control.{module}")
            *classes, name = path.split(".")
            for each in classes:
                owner = getattr(owner, each)
            _replace(owner, name, part)


def _replace(owner: Any, name: str, part: str) -> None:
    """Put a watch around a function, wherever it was imported; inner parts count with the outer."""
    found: Callable[..., Any] = getattr(owner, name)

    @wraps(found)
    def watched(*given: Any, **named: Any) -> Any:
        if getattr(_inside, "counted", False):
            return found(*given, **named)
        _inside.counted, begun = True, time.perf_counter()
        try:
            return found(*given, **named)
        finally:
            taken[part] += time.perf_counter() - begun
            _inside.counted = False

    for place in (owner, *sys.modules.values()):
        if getattr(place, "__dict__", {}).get(name) is found:
            setattr(place, name, watched)


class _Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass
