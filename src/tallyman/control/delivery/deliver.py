"""Deliver one event: it is taken, refused permanently, or to be retried."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from functools import cache
from pathlib import Path
from typing import IO, Any

from tallyman.control.delivery.destination import Destination
from tallyman.control.delivery.outbox import Trouble

# Status codes about the address, the key or the moment. Any other 4xx is about the event.
NOT_ABOUT_THE_EVENT = (401, 403, 404, 405, 407, 408, 425, 429)
BODY_SHOWN = 200


def deliver(destination: Destination, body: Mapping[str, Any]) -> Trouble | None:
    """Try once to send an event. Return None if it was taken."""
    try:
        if destination.file is not None:
            _append(destination.file, body)
        else:
            _post(destination, json.dumps(body).encode())
    except urllib.error.HTTPError as error:
        with error:
            answer = error.read(BODY_SHOWN).decode(errors="replace")
        reason = f"{error.code} {error.reason}" + (f": {answer}" if answer.strip() else "")
        refused = 400 <= error.code < 500 and error.code not in NOT_ABOUT_THE_EVENT
        return Trouble(destination.without_secrets(reason), refused=refused)
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        if isinstance(cause, TimeoutError):
            return Trouble("no answer in time")
        reason = str(getattr(cause, "strerror", None) or cause) or type(cause).__name__
        return Trouble(destination.without_secrets(reason))
    return None


def _append(file: Path, body: Mapping[str, Any]) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(body) + "\n")


def _post(destination: Destination, body: bytes) -> None:
    headers = {**destination.headers, "Content-Type": "application/json"}
    request = urllib.request.Request(destination.url, body, headers)
    with _opener(destination.verify).open(request, timeout=destination.timeout_s) as answer:
        answer.read()


@cache
def _opener(verify: bool | str) -> urllib.request.OpenerDirector:
    context = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
    if verify is False:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    https = urllib.request.HTTPSHandler(context=context)
    return urllib.request.build_opener(https, _NoRedirects())


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: it would become a GET without the event, whose success would look like a
    delivery, or take the key to another address."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> None:
        return None
