"""Destinations and errors as text for people, without secrets from the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

HIDDEN = "***"
UNREADABLE = "an address that cannot be read"
SECRET_NAME = re.compile(r"key|token|secret|passw|credential|authorization|sasl", re.IGNORECASE)
SECRET_NAMES = ("auth", "custom_headers", "storage_options", "fs_kwargs")
PLAIN_NAMES = ("type", "messagekey", "message_key", "name")
SHORTEST = 4
"""A shorter secret also occurs in ordinary words; hiding it would garble the reason."""
LONGEST = 300


def shown(transport: Mapping[str, Any]) -> str:
    kind = str(transport.get("type"))
    if kind == "composite":
        among = transport["transports"]
        every = among.values() if isinstance(among, Mapping) else among
        return ", ".join(shown(one) for one in every)
    if kind == "transform":
        return shown(transport["transport"])
    if "url" in transport:
        return origin(str(transport["url"]))
    if "log_file_path" in transport:
        path = str(transport["log_file_path"])
        return origin(path) if "://" in path else f"file {path}"
    return f"{kind} topic {transport['topic']}" if "topic" in transport else kind


def origin(url: str) -> str:
    """Return scheme, host and port only: a path may contain a key. An '@' or '/' within a password
    makes part of it look like a host, so a suspicious address is not shown at all."""
    try:
        found = urlsplit(url.strip())
        host, port = found.hostname, found.port
    except ValueError:
        return UNREADABLE
    if not found.scheme or not host or "@" in f"{found.path}{found.query}{found.fragment}":
        return UNREADABLE
    host = f"[{host}]" if ":" in host else host
    return f"{found.scheme}://{host}" + (f":{port}" if port is not None else "")


def secrets_in(transport: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(text for text in _secrets(transport, inside=False) if len(text) >= SHORTEST)


def _secrets(piece: object, *, inside: bool) -> Iterator[str]:
    if isinstance(piece, Mapping):
        for name, value in piece.items():
            plain = str(name).lower() in PLAIN_NAMES
            secret = name in SECRET_NAMES or bool(SECRET_NAME.search(str(name)))
            yield from _secrets(value, inside=(inside or secret) and not plain)
    elif isinstance(piece, Sequence) and not isinstance(piece, str):
        for value in piece:
            yield from _secrets(value, inside=inside)
    elif isinstance(piece, str):
        if inside:
            yield piece
        if "://" in piece:
            yield from _secrets_in_address(piece)


def _secrets_in_address(text: str) -> Iterable[str]:
    try:
        found = urlsplit(text)
        known = [found.password, found.username, found.query, found.netloc.rpartition("@")[0]]
    except ValueError:
        return [text]
    known += [value for _, value in parse_qsl(found.query)]
    return [form for one in known if one for form in (one, unquote(one))]


def without(secrets: Iterable[str], text: str) -> str:
    """Replace secrets by `***`, and shorten the text to one line."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
