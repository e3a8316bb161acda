"""The calls of a worker to its server: HTTP with JSON, on one kept connection per thread."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tallyman.errors import CallRefused, ServerUnavailable
from tallyman.settings import Secret, server_address

UNIX = "unix:"
TIMEOUT_S = 40.0
"""Longer than a claim may wait on the server."""


class ServerClient:
    def __init__(
        self, address: str, token: Secret, *, insecure: bool = False, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.address = server_address(address, insecure=insecure)
        self._token, self._timeout_s = token, timeout_s
        self._kept = threading.local()

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Call the server. Raises CallRefused with the problem it answers, ServerUnavailable
        without an answer: then it is unknown whether the call had an effect, and it may be
        repeated."""
        headers = {
            "Authorization": f"Bearer {self._token.reveal()}",
            "Content-Type": "application/json",
        }
        try:
            status, content = self._send(path, json.dumps(body).encode(), headers)
            answer = json.loads(content)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise ServerUnavailable(self.address, str(error) or type(error).__name__) from None
        if not isinstance(answer, dict):
            raise ServerUnavailable(self.address, "the answer is not JSON of ours")
        if status >= 500:
            reason = f"{status} {answer.get('code', '')}: {answer.get('detail', '')}"
            raise ServerUnavailable(self.address, reason)
        if status >= 400:
            problem, detail = str(answer.get("code", "")), str(answer.get("detail", ""))
            fence = answer.get("fence")
            raise CallRefused(status, problem, detail, fence if isinstance(fence, dict) else {})
        return answer

    def _send(self, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        kept = getattr(self._kept, "connection", None)
        if kept is not None:
            try:
                return _exchange(kept, path, body, headers)
            except (ConnectionError, http.client.RemoteDisconnected, http.client.CannotSendRequest):
                self.close()  # the server ended an idle connection: calls may be repeated
        self._kept.connection = self._connect()
        return _exchange(self._kept.connection, path, body, headers)

    def _connect(self) -> http.client.HTTPConnection:
        if self.address.startswith(UNIX):
            return _UnixConnection(self.address.removeprefix(UNIX), self._timeout_s)
        parts = urlsplit(self.address)
        assert parts.hostname is not None
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        return kind(parts.hostname, parts.port, timeout=self._timeout_s)

    def close(self) -> None:
        """Close the connection of this thread."""
        kept = getattr(self._kept, "connection", None)
        if kept is not None:
            kept.close()
            self._kept.connection = None


def _exchange(
    connection: http.client.HTTPConnection, path: str, body: bytes, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    connection.request("POST", path, body, dict(headers))
    answer = connection.getresponse()
    return answer.status, answer.read()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
