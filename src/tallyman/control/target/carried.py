"""Values that are carried from one process to another: frozen data classes as JSON, and back."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return the value as JSON. A class that has `to_json` and `of_json` decides itself."""
    if hasattr(type(value), "of_json"):
        return value.to_json()
    if is_dataclass(value):
        return {one.name: to_plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(to_plain(name)): to_plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(each) for each in value]
    if isinstance(value, (UUID, Path)):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value.value if isinstance(value, Enum) else value


def of_plain(kind: type[T], found: Any) -> T:
    """Build a value of this class from its JSON."""
    return _of(kind, found)


def _of(kind: Any, found: Any) -> Any:
    origin, given = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        others = [one for one in given if one is not type(None)]
        return None if found is None else _of(others[0], found) if len(others) == 1 else found
    if origin is tuple:
        return tuple(_of(given[0], each) for each in found)
    if origin is not None and issubclass(origin, Mapping):
        return {_of(given[0], name): _of(given[1], each) for name, each in found.items()}
    if not isinstance(kind, type):
        return found
    if hasattr(kind, "of_json"):
        return kind.of_json(found)
    if is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: _of(hints[name], each) for name, each in found.items()})
    if issubclass(kind, datetime):
        return datetime.fromisoformat(found)
    return kind(found) if issubclass(kind, (UUID, Path, Enum)) else found


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
