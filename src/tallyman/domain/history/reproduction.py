"""Reproductions: the comparison of a past run with the same run made again separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tallyman.domain.history.run import AssetResult
from tallyman.domain.pipeline.target import Target


class Verdict(StrEnum):
    """The outcome of a reproduction, for a run and for each target.

    Only a run is PARTLY_REPRODUCED. Only a target is REUSED, NOT_MADE, or NOT_COMPARED (it failed
    in a way that leaves nothing to compare).
    """

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
    """The differences, or the reasons why the target cannot be made again."""
    made_by: str | None = None
    """The run that made the reused result."""
    result: AssetResult | None = None
    """The result of making the target again."""
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
    """Why the whole run cannot be made again."""
    environment: Sequence[str] = ()
    """Versions of programs and libraries that have changed since the run."""
    commit: str | None = None
    """The git commit of the code that made the run, if known."""
    kept: str | None = None
    """The folder with the new results, relative to the project."""
    sealed: bool = True
    """True if a seal vouches for the manifest that was used."""
    stored_version: str | None = None
    """The pipeline version whose stored plan was used, because the files declare another."""
    not_applied: Sequence[str] = ()
    """Spark settings of the run that an already started session could not take over."""

    @property
    def verdict(self) -> Verdict:
        """Summarize; REPRODUCED only if everything the run made itself was made again with equal
        results.
        """
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
        """Count the targets, and the targets of each verdict."""
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
            "stored_version": self.stored_version,
            "kept": self.kept,
        }
