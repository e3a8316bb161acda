"""Log capture for the OpenLineage client: keep its messages off the terminal, and read errors from
them."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from openlineage.client.transport import HttpTransport, Transport

LOGGER = "openlineage"
KEEPS_THE_EVENT = (307, 308)
"""Redirect codes that resend the event. Other redirects become a GET without a body, whose success
would look like a delivery."""


class Redirected(Exception):
    """The receiver redirects to another address."""


class Overheard(logging.Handler):
    """A log handler that keeps, per thread, the last error that the client logged instead of
    raising."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._of_thread = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        self._of_thread.last = record.getMessage()

    def take(self) -> str | None:
        """Return the last error since the previous call, and clear it."""
        found: str | None = getattr(self._of_thread, "last", None)
        self._of_thread.last = None
        return found


_overheard = Overheard()


def overhear() -> Overheard:
    """Keep the client's log records off the terminal: they contain events and settings. Return the
    handler that collects its errors."""
    logger = logging.getLogger(LOGGER)
    if _overheard not in logger.handlers:
        logger.addHandler(_overheard)
        logger.propagate = False
        # `verify: false` is the user's choice; do not warn at every event.
        warnings.filterwarnings("ignore", message="Unverified HTTPS request")
    return _overheard


def refuse_redirects(transport: Transport) -> None:
    for http in _over_http(transport):
        http.session.hooks["response"].append(_refuse_redirect)


def _over_http(transport: object) -> Iterator[HttpTransport]:
    """Yield the transport and those it wraps, if they use HTTP."""
    if isinstance(transport, HttpTransport):
        yield transport
    among = getattr(transport, "transports", ())
    for inner in (*among, getattr(transport, "transport", None), getattr(transport, "http", None)):
        yield from _over_http(inner) if inner is not None else ()


def _refuse_redirect(response: Any, *_: object, **__: object) -> None:
    code = response.status_code
    if 300 <= code < 400 and not (code in KEEPS_THE_EVENT and "location" in response.headers):
        raise Redirected(f"it redirects to another address ({code}): configure that one")
