"""How a run was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tallyman.domain.account.fate import Evidence
from tallyman.domain.definition.threshold import Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a run was asked for; kept with it, so that a resume goes on in the same way."""

    selection: tuple[str, ...] = ()
    force: frozenset[str] = frozenset()
    evidence: Evidence | None = None
    thresholds: Thresholds | None = None
    jobs: int = 1
    go_on: bool = True
    good_partitions: bool = False
    """Publish the partitions that were done when others were not."""
    plan: Mapping[str, Any] | None = None
    """The plan that is applied, if one is."""
    replay_of: str | None = None
    """The run whose rejections are replayed; `replay` says what its commit has to know."""
    replay: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Options:
        evidence, thresholds = params.get("evidence"), params.get("thresholds")
        return cls(
            selection=tuple(params.get("selection", ())),
            force=frozenset(params.get("force", ())),
            evidence=Evidence(evidence) if evidence else None,
            thresholds=Thresholds.of_json(thresholds) if thresholds else None,
            jobs=int(params.get("jobs", 1)),
            go_on=bool(params.get("go_on", True)),
            good_partitions=bool(params.get("publish_good_partitions")),
            plan=params.get("plan"),
            replay_of=params.get("replay_of"),
            replay=params.get("replay"),
        )

    def with_force(self, force: frozenset[str]) -> Options:
        return replace(self, force=force)

    def with_jobs(self, jobs: int) -> Options:
        return replace(self, jobs=jobs)
