"""The volume of inputs: records read now, and those that the current version was made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tallyman.domain.pipeline.pipeline import Source

LEAST = 100
"""Inputs that had fewer records are not compared: half of a few is no sign of a lost delivery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRules:
    """What an asset does about inputs that are empty, or that lost more than half of their records.

    What a source says goes first, then what the asset says in its thresholds.
    """

    on_empty: Mapping[str, str] = field(default_factory=dict)
    on_shrink: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=dict)
    """The records that the current version was made from, by input; without those not compared."""

    @classmethod
    def of(cls, sources: Iterable[Source]) -> VolumeRules:
        """Collect what the sources say."""
        listed = list(sources)
        return cls(
            on_empty={one.name: one.on_empty for one in listed if one.on_empty},
            on_shrink={one.name: one.on_shrink for one in listed if one.on_shrink},
        )

    def compared(self, before: Mapping[str, int], accepted: Iterable[str]) -> VolumeRules:
        """Compare with earlier numbers of records; inputs that were accepted only warn."""
        on_shrink = {**self.on_shrink, **dict.fromkeys(accepted, "warn")}
        return replace(self, before=before, on_shrink=on_shrink)

    def shrank(self, name: str, rows: int) -> bool:
        """True if an input has less than half of the records it had."""
        before = self.before.get(name, 0)
        return before >= LEAST and 2 * rows < before
