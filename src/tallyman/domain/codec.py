"""Values between our own processes, and in our own tables: frozen data classes as JSON, and back.

The annotations of a class are its form. Files do not use this: people and other programs read them,
so their keys are written out where they are made.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

T = TypeVar("T")
Read = Callable[[Any], Any]
PLAIN = frozenset({str, int, float, bool, type(None)})
PARSED: Mapping[type, Read] = {UUID: UUID, Path: Path, datetime: datetime.fromisoformat}


class Unfit(ValueError):
    """JSON that is no value of the class: where, and what it should be. Quotes nothing of it."""


def to_plain(value: Any) -> Any:
    """Return the value as JSON."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if names := _names(kind):
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(to_plain(name)): to_plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(to_plain(each) for each in value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (UUID, Path)):
        return str(value)
    raise TypeError(f"a {kind.__name__} cannot be sent to another process")


def of_plain(kind: type[T], found: Any) -> T:
    """Build a value of this class from its JSON, or raise Unfit."""
    try:
        return _reader(kind)(found)
    except _Misfit as error:
        where = ".".join(error.path)
        raise Unfit(f"{where}: expected {error}" if where else f"expected {error}") from None


class _Misfit(Exception):
    """What was expected; `path` grows while the error passes through what has the value."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.path: list[str] = []


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else ()


@cache
def _reader(kind: Any) -> Read:
    """Return the function that reads values of this type."""
    origin, given = get_origin(kind), get_args(kind)
    if kind in (Any, object):
        return lambda found: found
    if origin in (Union, types.UnionType):
        return _union(given)
    if origin is tuple and given[1:] != (...,):
        return _tuple(tuple(map(_reader, given)))
    if origin in (tuple, list, frozenset):
        reader = _reader(given[0])
        return lambda found: origin(_each(range(len(_fit(found, list))), found, repeat(reader)))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(*map(_reader, given))
    return _class(kind) if is_dataclass(kind) else _value(kind)


def _value(kind: type) -> Read:
    taken = (int, float) if kind is float else (kind if kind in PLAIN else str,)
    parse = PARSED.get(kind, kind if issubclass(kind, Enum) else None)

    def read(found: Any) -> Any:
        if parse is None and kind not in PLAIN:
            raise TypeError(f"a {kind.__name__} cannot be read from another process")
        if type(found) not in taken:
            raise _Misfit(f"{kind.__name__}, not {type(found).__name__}")
        try:
            return found if parse is None else parse(found)
        except ValueError:
            raise _Misfit(kind.__name__) from None

    return read


def _union(kinds: tuple[Any, ...]) -> Read:
    """Read None, or the only other type; of several others only values of JSON itself."""
    others = [kind for kind in kinds if kind is not type(None)]
    [reader, *more] = map(_reader, others)
    taken = tuple(get_origin(kind) or kind for kind in others)

    def read(found: Any) -> Any:
        if found is None and len(others) < len(kinds):
            return None
        if more and not isinstance(found, taken):
            raise _Misfit(f"one of {', '.join(kind.__name__ for kind in taken)}")
        return found if more else reader(found)

    return read


def _tuple(readers: tuple[Read, ...]) -> Read:
    def read(found: Any) -> Any:
        if len(_fit(found, list)) != len(readers):
            raise _Misfit(f"a list of {len(readers)}")
        return tuple(_each(range(len(readers)), found, readers))

    return read


def _mapping(key: Read, value: Read) -> Read:
    def read(found: Any) -> Any:
        names = _each(_fit(found, dict), found, repeat(key))
        return dict(zip(names, _each(found, found.values(), repeat(value)), strict=True))

    return read


def _class(kind: Any) -> Read:
    hints = get_type_hints(kind)
    readers = {name: _reader(hints[name]) for name in _names(kind)}

    def read(found: Any) -> Any:
        for name in _fit(found, dict):
            if name not in readers:
                raise _Misfit(f"{kind.__name__}, which has no {name[:80]!r}")
        own = map(readers.__getitem__, found)
        given = dict(zip(found, _each(found, found.values(), own), strict=True))
        try:
            return kind(**given)
        except TypeError:
            lacking = [name for name in readers if name not in given]
            raise _Misfit(f"{kind.__name__} with {', '.join(lacking)}") from None

    return read


def _fit(found: Any, kind: type) -> Any:
    if type(found) is not kind:
        raise _Misfit(f"{kind.__name__}, not {type(found).__name__}")
    return found


def _each(names: Iterable[object], found: Iterable[Any], readers: Iterable[Read]) -> Iterator[Any]:
    """Read values that have these names."""
    for name, each, reader in zip(names, found, readers, strict=False):
        try:
            yield reader(each)
        except _Misfit as error:
            error.path.insert(0, str(name))
            raise
