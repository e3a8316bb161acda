"""Where lineage events go: read from OPENLINEAGE_* and openlineage.yml as every OpenLineage
program reads them, with what a spool needs changed: each event is tried once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from openlineage.client import OpenLineageClient
from openlineage.client.transport import get_default_factory
from openlineage.client.utils import deep_merge_dicts

from tallyman.control.delivery import client_log
from tallyman.control.delivery.destination_text import secrets_in, shown, without
from tallyman.errors import DestinationUnusable

FILE = "openlineage.yml"
PREFIX = "OPENLINEAGE__"
URL_VARIABLE = "OPENLINEAGE_URL"
DEFAULT_NAME = "default_http"
"""What the client calls the receiver of OPENLINEAGE_URL among several."""
NOWHERE = ("console", "noop")
"""Nobody takes what goes there: to mark it as sent would lose it."""
ONCE: Mapping[str, object] = {"total": 0, "read": 0, "connect": 0, "status_forcelist": []}
"""The client's own tries would delay the answer; when to try again is the sender's to decide."""


@dataclass(frozen=True, slots=True)
class Destination:
    client: OpenLineageClient
    shown: str
    """For people: without user, password, path or query."""
    secrets: frozenset[str]


class Client(OpenLineageClient):
    """Given everything: it looks for no file of its own, and leaves the environment, which child
    processes inherit, without copies of the key."""

    def _alias_env_vars(self) -> None:
        pass

    @staticmethod
    def _find_yaml_config_path() -> str | None:
        return None


def disabled() -> bool:
    return os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true"


def find(folders: Sequence[Path]) -> Destination | None:
    """What the environment, or an openlineage.yml in one of the folders, says; None if neither
    says anything. DestinationUnusable says what is wrong, and no secret."""
    if disabled():
        return None
    file = _file(folders)
    config = _read(file) if file else {}
    where = str(file) if file else "OPENLINEAGE_*"
    try:
        config = deep_merge_dicts(_variables(), config)
        transport = prepared(_with_plain_variables(config.get("transport") or {}))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = "the transport is not as OpenLineage has it"
        raise DestinationUnusable(where, f"{reason} ({type(error).__name__})") from None
    if transport.get("type", NOWHERE[0]) in NOWHERE:
        return None
    secrets = secrets_in(transport)
    client_log.overhear()
    try:
        # The factory takes what it needs out of what it is given.
        made = get_default_factory().create({**transport})
        client_log.refuse_redirects(made)
        client = Client(transport=made, config={**config, "transport": transport})
    except Exception as error:
        reason = without(secrets, f"{type(error).__name__}: {error}")
        raise DestinationUnusable(where, reason) from None
    return Destination(client, shown(transport), secrets)


def _file(folders: Sequence[Path]) -> Path | None:
    named = os.environ.get("OPENLINEAGE_CONFIG")
    if named:
        if not Path(named).is_file():
            raise DestinationUnusable("OPENLINEAGE_CONFIG", f"there is no file {named}")
        return Path(named)
    places = [*folders, Path(os.path.expanduser("~"), ".openlineage")]
    return next((place / FILE for place in places if (place / FILE).is_file()), None)


def _read(file: Path) -> dict[str, Any]:
    """The parser's words quote what it found; a key may be among it."""
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
    """OPENLINEAGE__TRANSPORT__TYPE=http is transport: {type: http}; values may be JSON."""
    found: dict[str, Any] = {}
    # A whole (…__TRANSPORT) comes after its parts, and counts instead of them.
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
    """OPENLINEAGE_URL, its endpoint and its key, where nothing else is said. The key goes only
    to that address."""
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
    """So that returning means taken: one try, in this thread, and no failure is passed over."""
    found, kind = dict(transport), transport.get("type")
    if kind in ("http", "async_http"):
        # What is sent behind one's back is lost with the process, and marked as sent.
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
            # All of them are to have it: again for all is better than never for one.
            found.setdefault("continue_on_failure", False)
    return found
