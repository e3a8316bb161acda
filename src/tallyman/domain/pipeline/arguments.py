"""Arguments of declarations: of the right type, or a UsageError that names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyman.errors import UsageError


def text(what: str, value: object) -> str:
    """Return a text that is not empty and has no control characters."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise UsageError(f"{what}: expected a text, not {shown(value)}")
    return value


def names(what: str, value: object) -> tuple[str, ...]:
    """Return the names of columns: none, one or several."""
    if value is None:
        return ()
    listed = (value,) if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple, set, frozenset)):
        raise UsageError(f"{what}: expected a name or a list of names, not {shown(value)}")
    return tuple(text(what, each) for each in listed)


def mapping(what: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UsageError(f"{what}: expected names and values, not {shown(value)}")
    return value


def notes(what: str, value: object) -> Mapping[str, str]:
    """Return names and texts. A name without `=` can be searched for as name=value."""
    found: dict[str, str] = {}
    for name, given in mapping(what, value).items():
        if "=" in text(what, name):
            raise UsageError(f"{what}: the name {name!r} contains '='")
        if not isinstance(given, (str, int, float)):
            raise UsageError(f"{what}: {name} is a text or a number, not {shown(given)}")
        found[name] = text(f"{what}: {name}", as_text(given))
    return found


def as_text(value: object) -> str:
    """Write a value as YAML would have it: true and false in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(value: object) -> str:
    try:
        return repr(value)[:80]
    except Exception:
        return f"a {type(value).__name__}"
