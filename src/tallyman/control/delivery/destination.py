"""The destination of lineage events, read from OPENLINEAGE_* and openlineage.yml like every
OpenLineage program does. One difference: each event is tried once, because the spool retries."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tallyman.control.delivery.destination_text import secrets_in, shown, without
from tallyman.errors import DestinationUnusable
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

    from tallyman.control.delivery import client
else:
    client = OnDemand("tallyman.control.delivery.client")

FILE = "openlineage.yml"
PREFIX = "OPENLINEAGE__"
URL_VARIABLE = "OPENLINEAGE_URL"
DEFAULT_NAME = "default_http"
"""The client's name for the receiver of OPENLINEAGE_URL in a composite transport."""
NOWHERE = ("console", "noop")
"""Transports that deliver to nobody: marking an event as sent to them would lose it."""
ONCE: Mapping[str, object] = {"total": 0, "read": 0, "connect": 0, "status_forcelist": []}
"""Retry settings for one try. The sender decides when to try again."""


@dataclass(frozen=True, slots=True)
class Destination:
    client: OpenLineageClient
    shown: str
    """The address for people: without user, password, path or query."""
    secrets: frozenset[str]


def disabled() -> bool:
    return os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true"


def find(folders: Sequence[Path]) -> Destination | None:
    """Find the destination in the environment or in an openlineage.yml in one of the folders; None
    if neither configures one. DestinationUnusable gives the reason without secrets."""
    if disabled():
        return None
    file = _file(folders)
    config = _read(file) if file else {}
    where = str(file) if file else "OPENLINEAGE_*"
    try:
        config = _merged(_variables(), config)
        transport = prepared(_with_plain_variables(config.get("transport") or {}))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = "the transport settings are not valid"
        raise DestinationUnusable(where, f"{reason} ({type(error).__name__})") from None
    if transport.get("type", NOWHERE[0]) in NOWHERE:
        return None
    secrets = secrets_in(transport)
    try:
        made = client.made(config, transport)
    except Exception as error:
        reason = without(secrets, f"{type(error).__name__}: {error}")
        raise DestinationUnusable(where, reason) from None
    return Destination(made, shown(transport), secrets)


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge settings at every depth; where both have a value, the second counts."""
    found = {**first, **second}
    for name in first.keys() & second.keys():
        if isinstance(first[name], dict) and isinstance(second[name], dict):
            found[name] = _merged(first[name], second[name])
    return found


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
        raise DestinationUnusable(str(file), f"it is not valid YAML{line}") from None
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise DestinationUnusable(
            str(file), f"it cannot be read ({type(error).__name__})"
        ) from None
    if not isinstance(found, dict):
        raise DestinationUnusable(str(file), "expected names and values")
    return found


def _variables() -> dict[str, Any]:
    """Read nested settings: OPENLINEAGE__TRANSPORT__TYPE=http means transport: {type: http}; values
    may be JSON."""
    found: dict[str, Any] = {}
    # Reverse order puts a whole (…__TRANSPORT) after its parts, so that it replaces them.
    for name in sorted((n for n in os.environ if n.startswith(PREFIX)), reverse=True):
        *path, last = name[len(PREFIX) :].lower().split("__")
        place = found
        for piece in path:
            place = place.setdefault(piece, {})
        place[last] = _value(os.environ[name])
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _with_plain_variables(transport: Mapping[str, Any]) -> dict[str, Any]:
    """Apply OPENLINEAGE_URL, its endpoint and its key where nothing else is configured. The key is
    sent only to that address."""
    url = os.environ.get(URL_VARIABLE)
    if not url:
        return dict(transport)
    plain: dict[str, Any] = {"type": "http", "url": url}
    if endpoint := os.environ.get("OPENLINEAGE_ENDPOINT"):
        plain["endpoint"] = endpoint
    if key := os.environ.get("OPENLINEAGE_API_KEY"):
        plain["auth"] = {"type": "api_key", "apiKey": key}
    kind, among = transport.get("type"), transport.get("transports")
    if kind is None:
        return plain
    if kind in ("http", "async_http") and "url" not in transport:
        return {**plain, **transport}
    if kind == "composite" and isinstance(among, dict) and DEFAULT_NAME not in among:
        return {**transport, "transports": {**among, DEFAULT_NAME: plain}}
    return dict(transport)


def prepared(transport: Mapping[str, Any]) -> dict[str, Any]:
    """Adjust the transport so that a return means the event was taken: one try, in this thread, and
    no swallowed failure."""
    found, kind = dict(transport), transport.get("type")
    if kind in ("http", "async_http"):
        # An event sent in the background is lost with the process, although it is marked as sent.
        found |= {"type": "http", "retry": dict(ONCE)}
    elif kind == "datadog":
        found |= {"retry": dict(ONCE), "async_transport_rules": {"*": {"*": False}}}
    elif kind == "transform":
        found["transport"] = prepared(found["transport"])
    elif kind == "composite":
        among = found["transports"]
        if isinstance(among, dict):
            found["transports"] = {name: prepared(one) for name, one in among.items() if one}
        else:
            found["transports"] = [prepared(one) for one in among]
        if found.get("continue_on_success", True):
            # Every receiver must get the event: sending it twice to one is better than never to
            # another.
            found.setdefault("continue_on_failure", False)
    return found
