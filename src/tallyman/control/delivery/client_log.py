"""How the OpenLineage client is kept from the terminal, and what it says there is heard instead."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from openlineage.client.transport import HttpTransport, Transport

LOGGER = "openlineage"
KEEPS_THE_EVENT = (307, 308)
"""Other redirects turn the event into a question without a body, and the answer looks like yes."""


class Redirected(Exception):
    """The receiver is somewhere else."""


class Overheard(logging.Handler):
    """Errors that the client logs instead of raising them, of each thread."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._of_thread = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        self._of_thread.last = record.getMessage()

    def take(self) -> str | None:
        """The last one since it was last asked."""
        found: str | None = getattr(self._of_thread, "last", None)
        self._of_thread.last = None
        return found


_overheard = Overheard()


def overhear() -> Overheard:
    """From here on nothing of the client's reaches the terminal: its records hold events and
    settings, and it reports to us."""
    logger = logging.getLogger(LOGGER)
    if _overheard not in logger.handlers:
        logger.addHandler(_overheard)
        logger.propagate = False
        # `verify: false` is the user's choice, and not news at every event.
        warnings.filterwarnings("ignore", message="Unverified HTTPS request")
    return _overheard


def refuse_redirects(transport: Transport) -> None:
    for http in _over_http(transport):
        http.session.hooks["response"].append(_refuse_redirect)


def _over_http(transport: object) -> Iterator[HttpTransport]:
    """It, and those it is made of."""
    if isinstance(transport, HttpTransport):
        yield transport
    among = getattr(transport, "transports", ())
    for inner in (*among, getattr(transport, "transport", None), getattr(transport, "http", None)):
        yield from _over_http(inner) if inner is not None else ()


def _refuse_redirect(response: Any, *_: object, **__: object) -> None:
    code = response.status_code
    if 300 <= code < 400 and not (code in KEEPS_THE_EVENT and "location" in response.headers):
        raise Redirected(f"it answers {code} and names another address: configure that one")
