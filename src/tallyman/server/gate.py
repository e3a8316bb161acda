"""The gate of the internal listener: who calls, and how much, is decided before a body is read."""

from __future__ import annotations

from anyio.to_thread import run_sync
from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tallyman.errors import NotAWorker, TallymanError, TokenMissing
from tallyman.registry.task.worker_tokens import PREFIX, KnownWorker
from tallyman.server import problems
from tallyman.server.dispatcher import Dispatcher

GUARDED = "/internal/"
DESCRIPTION = "/internal/openapi.json"
"""Open to everybody: it says nothing about anybody."""
USER_PREFIX = "tm_"
MOST_BYTES = 32 * 1024 * 1024
"""The longest body: a child may hand over 16 MiB, and reports are made from that."""


class Gate:
    """Lets workers in, as `scope["state"]["worker"]`; answers 401 without a token, 403 to a user,
    413 to a body that is too long."""

    def __init__(self, app: ASGIApp, dispatcher: Dispatcher) -> None:
        self._app, self._dispatcher = app, dispatcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarded = scope["type"] == "http" and scope["path"].startswith(GUARDED)
        if not guarded or scope["path"] == DESCRIPTION:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            worker = await self._worker(headers.get("Authorization", ""))
        except TallymanError as error:
            await problems.of(error)(scope, receive, send)
            return
        length = headers.get("Content-Length", "")
        if length.isdigit() and int(length) > MOST_BYTES:
            refused = problems.problem(413, problems.TOO_LARGE, _too_long(int(length)))
            await refused(scope, receive, send)
            return
        scope.setdefault("state", {})["worker"] = worker
        await self._app(scope, _counted(receive), send)

    async def _worker(self, authorization: str) -> KnownWorker:
        """Identify the worker by its token, or raise TokenMissing or NotAWorker."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise TokenMissing
        if token.startswith(USER_PREFIX):
            raise NotAWorker
        found = None
        if token.startswith(PREFIX):
            # Only a look into the database is worth a change of threads.
            known = self._dispatcher.known_worker(token)
            found = known or await run_sync(self._dispatcher.worker, token)
        if found is None:
            raise TokenMissing
        return found


def _counted(receive: Receive) -> Receive:
    """Pass a body on, and refuse it once it is too long: its length may not have been announced."""
    read = 0

    async def counting() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > MOST_BYTES:
            raise HTTPException(413, _too_long(read))
        return message

    return counting


def _too_long(found: int) -> str:
    return (
        f"the body has at least {found:,} bytes, and may have {MOST_BYTES:,}; nothing was changed. "
        "Send fewer events in one call"
    )
