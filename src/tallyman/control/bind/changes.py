"""Inputs that changed since a run read them. Each caller words the message for its own users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChangedInput:
    """An input whose content hash changed; None means there was, or is, no content."""

    name: str
    then: str | None
    now: str | None


def changes(then: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[ChangedInput]:
    """Compare the content hashes of inputs by name, in the order of `then`, and list those that
    differ."""
    return [
        ChangedInput(name, then.get(name), now.get(name))
        for name in dict.fromkeys([*then, *now])
        if then.get(name) != now.get(name)
    ]
