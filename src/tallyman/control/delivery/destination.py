"""The destination of lineage events, read from OPENLINEAGE_* and openlineage.yml."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import yaml

from tallyman.errors import DestinationUnusable

FILE = "openlineage.yml"
PREFIX = "OPENLINEAGE__"
ENDPOINT = "api/v1/lineage"
TIMEOUT_S = 5.0
NOWHERE = ("console", "noop")
"""Transports that deliver to nobody: marking an event as sent to them would lose it."""
HIDDEN = "***"
SHORTEST = 4
"""A shorter secret also occurs in ordinary words; hiding it would garble the reason."""
LONGEST = 300


class _Invalid(Exception):
    """Why the settings cannot be used, without any of their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A collector or a file."""

    shown: str
    """The address for people. Without its path, which may contain a key."""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    verify: bool | str = True
    """True to check the certificate, or a file with the authorities that may sign it."""
    file: Path | None = None

    def without_secrets(self, text: str) -> str:
        """Replace keys by `***`, and shorten the text to one line."""
        # Of `Bearer KEY` also the key alone.
        values = {part for value in self.headers.values() for part in (value, *value.split()[1:])}
        for secret in sorted(values, key=len, reverse=True):
            text = text.replace(secret, HIDDEN) if len(secret) >= SHORTEST else text
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def disabled() -> bool:
    return os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true"


def find(folders: Sequence[Path]) -> Destination | None:
    """Find the destination in the environment or in an openlineage.yml in one of the folders; None
    if neither configures one. DestinationUnusable gives the reason without secrets."""
    if disabled():
        return None
    file = _file(folders)
    try:
        given = _variables()
        config = _read(file) if file else {}
        unknown = sorted({*given, *config} - {"transport"})
        if unknown:
            raise _Invalid(f"only `transport` is supported, not {', '.join(map(str, unknown))}")
        return _destination({**(given.get("transport") or {}), **(config.get("transport") or {})})
    except _Invalid as error:
        raise DestinationUnusable(str(file or "OPENLINEAGE_*"), str(error)) from None
    except (AttributeError, TypeError, ValueError) as error:
        reason = f"the transport settings are not valid ({type(error).__name__})"
        raise DestinationUnusable(str(file or "OPENLINEAGE_*"), reason) from None


def _destination(transport: dict[str, Any]) -> Destination | None:
    kind, variable = transport.get("type"), os.environ.get("OPENLINEAGE_URL")
    if variable and kind in (None, "http") and "url" not in transport:
        # The key of the environment goes to the address of the environment only.
        auth = {"type": "api_key", "apiKey": os.environ.get("OPENLINEAGE_API_KEY")}
        endpoint = os.environ.get("OPENLINEAGE_ENDPOINT") or ENDPOINT
        plain: dict[str, Any] = {
            "url": variable,
            "endpoint": endpoint,
            "auth": auth if auth["apiKey"] else None,
        }
        kind, transport = "http", {**plain, **transport}
    if not transport or kind in NOWHERE:
        return None
    if kind == "file" and isinstance(transport.get("log_file_path"), str):
        path = Path(transport["log_file_path"])
        return Destination(shown=f"file {path}", file=path)
    if kind != "http":
        raise _Invalid("`type` must be http, file (with log_file_path) or console")
    url, verify = str(transport.get("url") or ""), transport.get("verify", True)
    return Destination(
        shown=_origin(url),
        url=urljoin(url, str(transport.get("endpoint") or ENDPOINT)),
        headers=_headers(transport),
        timeout_s=float(transport.get("timeout") or TIMEOUT_S),
        verify=verify if isinstance(verify, bool) else str(verify),
    )


def _origin(url: str) -> str:
    """Return scheme, host and port of an address that contains no user: an '@' or '/' in a password
    would make part of it look like a host."""
    found = urlsplit(url)
    if found.scheme not in ("http", "https") or not found.hostname or "@" in url:
        raise _Invalid("`url` must be http://… or https://… without a user; a key goes into `auth`")
    return f"{found.scheme}://{found.netloc}"


def _headers(transport: Mapping[str, Any]) -> dict[str, str]:
    headers = {str(k): str(v) for k, v in (transport.get("custom_headers") or {}).items()}
    if auth := transport.get("auth"):
        key = auth.get("apiKey") or auth.get("apikey") or auth.get("api_key")
        if auth.get("type") != "api_key" or not key:
            raise _Invalid("`auth` must be {type: api_key, apiKey: …}")
        headers["Authorization"] = f"Bearer {key}"
    return headers


def _file(folders: Sequence[Path]) -> Path | None:
    named = os.environ.get("OPENLINEAGE_CONFIG")
    if named:
        if not Path(named).is_file():
            raise DestinationUnusable("OPENLINEAGE_CONFIG", f"there is no file {named}")
        return Path(named)
    places = [*folders, Path(os.path.expanduser("~"), ".openlineage")]
    return next((place / FILE for place in places if (place / FILE).is_file()), None)


def _read(file: Path) -> dict[str, Any]:
    """Read the file. The parser's own message is not shown: it quotes the file, which may hold a
    key."""
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except yaml.MarkedYAMLError as error:
        line = f" at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise _Invalid(f"it is not valid YAML{line}") from None
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise _Invalid(f"it cannot be read ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise _Invalid("expected names and values")
    return found


def _variables() -> dict[str, Any]:
    """Read nested settings: OPENLINEAGE__TRANSPORT__TYPE=http means transport: {type: http}; values
    may be JSON."""
    found: dict[str, Any] = {}
    for name in sorted(n for n in os.environ if n.startswith(PREFIX)):
        *path, last = name[len(PREFIX) :].lower().split("__")
        place = found
        for piece in path:
            place = place.setdefault(piece, {})
        try:
            place[last] = json.loads(os.environ[name])
        except ValueError:
            place[last] = os.environ[name]
    return found
