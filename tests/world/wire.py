"""A wire between programs and PostgreSQL that loses the request or the reply of a chosen COMMIT."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Wire:
    """Passes on what is said, until the COMMIT that it was told to lose."""

    server: Path
    folder: Path
    port: int
    countdown: int = 0
    lose_reply: bool = False
    cut: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def lose(self, nth: int, *, reply: bool) -> None:
        self.countdown, self.lose_reply = nth, reply

    def open(self) -> socket.socket:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self.folder / f".s.PGSQL.{self.port}"))
        listening.listen(64)
        threading.Thread(target=self._accept, args=[listening], daemon=True).start()
        return listening

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.socket(socket.AF_UNIX)
                if server.connect_ex(str(self.server)) != 0:  # it is not up
                    hang_up(client, server)
                    continue
                lost = threading.Event()
                for pump in (self._to_server, self._to_client):
                    ends = (client, server, lost)
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    def _to_server(
        self, client: socket.socket, server: socket.socket, lost: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self._is_the_one(data):
                    self.cut += 1
                    if not self.lose_reply:
                        break
                    lost.set()
                server.sendall(data)
        hang_up(client, server)

    def _to_client(
        self, client: socket.socket, server: socket.socket, lost: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if lost.is_set():
                    break
                client.sendall(data)
        hang_up(client, server)

    def _is_the_one(self, data: bytes) -> bool:
        with self._lock:
            if self.countdown and b"COMMIT" in data:
                self.countdown -= 1
                return self.countdown == 0
            return False


def hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
