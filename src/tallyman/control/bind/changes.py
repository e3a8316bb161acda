"""Has an input changed since a run read it? One answer; whoever asks words it for the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChangedInput:
    """An input whose content hash is not what it was; None where there was or is no content."""

    name: str
    then: str | None
    now: str | None


def changes(then: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[ChangedInput]:
    """Compare content hashes by the name of the input, in the order of the first that has it."""
    return [
        ChangedInput(name, then.get(name), now.get(name))
        for name in dict.fromkeys([*then, *now])
        if then.get(name) != now.get(name)
    ]
