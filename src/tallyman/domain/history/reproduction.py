"""Making a past run again, aside: what came of it, for each target and for the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tallyman.domain.history.run import AssetResult
from tallyman.domain.pipeline.target import Target


class Verdict(StrEnum):
    """Of a run, and of each target; only a run is partly reproduced, only a target is reused, was
    not made, or failed in a way that leaves nothing to compare."""

    REPRODUCED = "REPRODUCED"
    PARTLY_REPRODUCED = "PARTLY_REPRODUCED"
    DIFFERENT = "DIFFERENT"
    NOT_REPRODUCIBLE = "NOT_REPRODUCIBLE"
    REUSED = "REUSED"
    NOT_MADE = "NOT_MADE"
    NOT_COMPARED = "NOT_COMPARED"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAgain:
    target: Target
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    """What differs, or what stands against making it again."""
    made_by: str | None = None
    """The run whose result was reused."""
    result: AssetResult | None = None
    """As it came out now."""
    details: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "asset": self.target.asset,
            "partition": self.target.partition,
            "verdict": self.verdict.value,
            "reasons": list(self.reasons),
        }
        if self.made_by:
            found["made_by"] = self.made_by
        if self.result is not None:
            found["result"] = self.result.to_json()
        return found | dict(self.details or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduced:
    run_id: str
    targets: tuple[TargetAgain, ...]
    reasons: tuple[str, ...] = ()
    """What stands against the whole run."""
    environment: Sequence[str] = ()
    """Versions that are not what they were."""
    commit: str | None = None
    """Of the code that made the run, if it is known."""
    kept: str | None = None
    """The folder with what was made, below the project."""
    sealed: bool = True
    """Whether a seal vouches for the manifest that it was made again by."""
    not_applied: Sequence[str] = ()
    """Spark settings of the run that a session which was up already could not be given."""

    @property
    def verdict(self) -> Verdict:
        """REPRODUCED only if all that the run began itself was made again and is the same."""
        found = {again.verdict for again in self.targets}
        if self.reasons or Verdict.NOT_REPRODUCIBLE in found:
            return Verdict.NOT_REPRODUCIBLE
        if Verdict.DIFFERENT in found:
            return Verdict.DIFFERENT
        if Verdict.REPRODUCED not in found:
            return Verdict.NOT_REPRODUCIBLE
        partly = Verdict.NOT_COMPARED in found
        return Verdict.PARTLY_REPRODUCED if partly else Verdict.REPRODUCED

    @property
    def counts(self) -> dict[str, int]:
        """Targets of the run, and how many of them came to what."""
        found = Counter(again.verdict for again in self.targets)
        known = (Verdict.REPRODUCED, *(one for one in found if one is not Verdict.REPRODUCED))
        return {"targets": len(self.targets)} | {one.value.lower(): found[one] for one in known}

    @property
    def exit_code(self) -> int:
        return 0 if self.verdict is Verdict.REPRODUCED else 1

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "verdict": self.verdict.value,
            "sealed": self.sealed,
            "counts": self.counts,
            "reasons": list(self.reasons),
            "targets": [again.to_json() for again in self.targets],
            "environment": list(self.environment),
            "not_applied": list(self.not_applied),
            "commit": self.commit,
            "kept": self.kept,
        }
