"""Values as JSON: equal values have equal bytes and one hash, and differ at named leaves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical_hash(value: object) -> str:
    return hashed(canonical(value))


def hashed(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def flattened(value: object, path: str = "", *, lists: bool = False) -> dict[str, Any]:
    """Return every leaf by its path: `assets.daily.thresholds.percentage`. With `lists`, a list is
    no leaf, and its numbers are part of the path."""
    inside = enumerate(value) if lists and isinstance(value, list) else ()
    found: dict[str, Any] = {}
    for name, each in value.items() if isinstance(value, Mapping) else inside:
        found |= flattened(each, f"{path}.{name}" if path else str(name), lists=lists)
    return found or {path: value}


def changed(
    then: object, now: object, *, lists: bool = False, absent: Any = None
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path of each leaf that differs, and both values."""
    sides = [flattened(side, lists=lists) for side in (then, now)]
    before, after = ({path: leaf for path, leaf in side.items() if leaf != {}} for side in sides)
    for path in dict.fromkeys([*before, *after]):
        pair = before.get(path, absent), after.get(path, absent)
        if pair[0] != pair[1]:
            yield path, *pair
