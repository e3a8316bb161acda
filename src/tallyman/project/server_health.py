"""The health of the server that a project names: does it answer, and has it workers?"""

from __future__ import annotations

import http.client
import json
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from tallyman.domain.version.owner import Owner

UNIX = "unix:"
PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHealth:
    address: str
    workers: int = 0
    """How many tasks of the pipeline its workers can do at once."""
    problem: str | None = None
    """Why it hands out no tasks; None if it does."""

    def __str__(self) -> str:
        if self.problem is not None:
            return f"{self.address}: {self.problem}"
        many = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        return f"{self.address}, {many}"


def ask(address: str, owner: Owner) -> ServerHealth:
    """Ask a server whether it is ready; never raises."""
    try:
        status, body = _get(address, "/readyz")
        answer = json.loads(body)
        if status != 200:
            return ServerHealth(address=address, problem=str(answer["detail"]))
        workers = int(answer["workers"].get(str(owner), 0))
        return ServerHealth(address=address, workers=workers)
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        return ServerHealth(address=address, problem=f"it does not answer: {reason}")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServerHealth(address=address, problem="something else than a server answers there")


def _get(address: str, path: str) -> tuple[int, bytes]:
    if address.startswith(UNIX):
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(PATIENCE_S)
    else:
        parts = urlsplit(address)
        kind = http.client.HTTPConnection
        if parts.scheme == "https":
            kind = http.client.HTTPSConnection
        connection = kind(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    try:
        if address.startswith(UNIX):
            connection.sock.connect(address.removeprefix(UNIX))
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(1_000_000)
    finally:
        connection.close()
