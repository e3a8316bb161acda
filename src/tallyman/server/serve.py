"""Serve: the loops and the internal listener in one process, until a signal ends it."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import anyio.to_thread
import uvicorn

from tallyman.control.tasks.target_tasks import TargetTasks
from tallyman.errors import UsageError
from tallyman.registry.database import Database
from tallyman.server.app import internal_app
from tallyman.server.dispatcher import THREADS, Dispatcher
from tallyman.settings import is_local

UNIX = "unix:"
DRAIN_S = 30
"""How long calls that have begun may take after SIGTERM."""


def serve(
    database: Database,
    bind: str,
    *,
    ready: Callable[[str], None],
    leave: Callable[[], None] = lambda: None,
    remote: bool = False,
    targets: TargetTasks | None = None,
) -> bool:
    """Run until SIGTERM or SIGINT. `ready` gets the address once calls are accepted. After the
    signal nobody gets a task any more; `leave` returns when those who still need this server are
    done, and then calls that have begun finish. A second signal ends all of this at once: False.
    `targets` are the tasks of a project that make its targets."""
    listening, address = listen(bind, remote=remote)
    dispatcher = Dispatcher(database, targets)
    dispatcher.start()
    try:
        server = _Server(dispatcher, lambda: ready(address), leave)
        server.run(sockets=[listening])
        return not server.force_exit
    finally:
        dispatcher.stop()
        listening.close()
        if bind.startswith(UNIX):
            Path(bind.removeprefix(UNIX)).unlink(missing_ok=True)


def listen(bind: str, *, remote: bool) -> tuple[socket.socket, str]:
    """Open `host:port` or `unix:path`; return the socket and its address as workers write it. An
    address that other machines reach is refused unless `remote` is set: tokens would travel in
    the clear."""
    if bind.startswith(UNIX):
        return _listen_unix(Path(bind.removeprefix(UNIX)).absolute())
    host, _, port = bind.rpartition(":")
    host = host.strip("[]")
    if not port.isdigit() or int(port) > 65535 or not host:
        raise UsageError(f"expected host:port or unix:path to listen at, not {bind!r}")
    if not remote and not is_local(host):
        raise UsageError(
            f"{bind} is not on this machine only: tokens of workers would travel unencrypted. "
            "Listen at 127.0.0.1 behind a proxy that speaks TLS"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        opened = socket.create_server((host, int(port)), family=family, backlog=512)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(
            f"{bind} cannot be listened at: {reason}. Choose another port, or 0 for any"
        ) from None
    # Inherited by the connections: without it every answer waits 40 ms for an acknowledgement.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    shown = f"[{host}]" if ":" in host else host
    return opened, f"http://{shown}:{opened.getsockname()[1]}"


def _listen_unix(path: Path) -> tuple[socket.socket, str]:
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A socket that a killed server left refuses connections, and is in the way.
        if path.is_socket() and opened.connect_ex(str(path)) != 0:
            path.unlink()
        opened.close()
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        opened.bind(str(path))
        path.chmod(0o600)
        opened.listen(512)
    except OSError as error:
        opened.close()
        raise UsageError(f"{path} cannot be listened at: {error.strerror or error}") from None
    return opened, f"{UNIX}{path}"


class _Server(uvicorn.Server):
    """uvicorn, which lets waiting claims go before it waits for calls to finish, and returns after
    a signal instead of dying from it: there is more to close."""

    def __init__(
        self, dispatcher: Dispatcher, ready: Callable[[], None], leave: Callable[[], None]
    ) -> None:
        super().__init__(
            uvicorn.Config(
                internal_app(dispatcher),
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=DRAIN_S,
                lifespan="off",
            )
        )
        self._dispatcher, self._ready, self._leave = dispatcher, ready, leave

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._dispatcher.draining.is_set():
            self.force_exit = self.should_exit = True
            return
        self._dispatcher.draining.set()
        threading.Thread(target=self._left, name="leave", daemon=True).start()

    def _left(self) -> None:
        try:
            self._dispatcher.drain()
            self._leave()
        finally:
            self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        await super().startup(sockets)
        self._ready()
