"""The options of a run, and how the registry stores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from tallyman.domain.account.fate import Evidence
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.domain.version.change_plan import ChangePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Facts about a replay that its commit needs."""

    adds: tuple[str, ...] = ()
    """Assets that add rows to the existing ones; the others are made as a whole."""
    taken_back: tuple[UUID, ...] = ()
    """Runs that replayed the same rejections and were rolled back."""
    records: Mapping[str, int] = field(default_factory=dict)
    """The number of records of each target that are replayed."""

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> ReplayOptions:
        return cls(
            adds=tuple(found.get("adds", ())),
            taken_back=tuple(UUID(run) for run in found.get("taken_back", ())),
            records=dict(found.get("records", {})),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "adds": list(self.adds),
            "taken_back": [str(run) for run in self.taken_back],
            "records": dict(self.records),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that a run was started with, stored so that a resume uses the same ones."""

    selection: tuple[str, ...] = ()
    force: frozenset[str] = frozenset()
    evidence: Evidence | None = None
    thresholds: Thresholds | None = None
    jobs: int = 1
    go_on: bool = True
    good_partitions: bool = False
    """Publish the partitions that succeeded even if others did not."""
    plan: ChangePlan | None = None
    """The change plan that the run applies, if any."""
    accept_shrink: tuple[str, ...] = ()
    """The inputs that may have less than half of their earlier records."""
    replay_of: str | None = None
    """The run whose rejections are replayed, if any."""
    replay: ReplayOptions | None = None
    stored_version: str | None = None
    """The hash of the stored pipeline version to run; None means that of the project's files."""

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Options:
        evidence, thresholds = found.get("evidence"), found.get("thresholds")
        plan, replay = found.get("plan"), found.get("replay")
        return cls(
            selection=tuple(found.get("selection", ())),
            force=frozenset(found.get("force", ())),
            evidence=Evidence(evidence) if evidence else None,
            thresholds=Thresholds.of_json(thresholds) if thresholds else None,
            jobs=int(found.get("jobs", 1)),
            go_on=bool(found.get("go_on", True)),
            good_partitions=bool(found.get("publish_good_partitions")),
            plan=ChangePlan.of_json(plan) if plan else None,
            accept_shrink=tuple(found.get("accept_shrink", ())),
            replay_of=found.get("replay_of"),
            replay=ReplayOptions.of_json(replay) if replay is not None else None,
            stored_version=found.get("stored_version"),
        )

    def to_json(self) -> dict[str, Any]:
        replay = self.replay.to_json() if self.replay else None
        return {
            **({"replay_of": self.replay_of, "replay": replay} if self.replay_of else {}),
            **({"stored_version": self.stored_version} if self.stored_version else {}),
            **({"accept_shrink": list(self.accept_shrink)} if self.accept_shrink else {}),
            "plan": self.plan.to_json() if self.plan else None,
            "publish_good_partitions": self.good_partitions,
            "selection": list(self.selection),
            "force": sorted(self.force),
            "evidence": self.evidence.value if self.evidence else None,
            "thresholds": self.thresholds.to_json() if self.thresholds else None,
            "jobs": self.jobs,
            "go_on": self.go_on,
        }

    def with_force(self, force: frozenset[str]) -> Options:
        return replace(self, force=force)

    def with_stored_version(self, version: str) -> Options:
        return replace(self, stored_version=version)

    def with_jobs(self, jobs: int) -> Options:
        return replace(self, jobs=jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParams:
    """The start of a run, as the registry stores it: its options, and what was derived from
    them.
    """

    options: Options = Options()
    assets: tuple[str, ...] = ()
    append: tuple[str, ...] = ()
    """Those of its assets that append rows to the existing ones."""
    pipeline_version: str | None = None
    pipeline_before: str | None = None
    """The pipeline version that was active when the run began."""
    meta: Mapping[str, str] = field(default_factory=dict)
    """Notes of whoever started the run, by name. They decide nothing."""

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> RunParams:
        return cls(
            options=Options.of_json(found),
            assets=tuple(found.get("assets", ())),
            append=tuple(found.get("append", ())),
            pipeline_version=found.get("pipeline_version"),
            pipeline_before=found.get("pipeline_before"),
            meta=dict(found.get("meta", {})),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            **({"meta": dict(self.meta)} if self.meta else {}),
            "assets": list(self.assets),
            "append": list(self.append),
            **self.options.to_json(),
            "pipeline_version": self.pipeline_version,
            "pipeline_before": self.pipeline_before,
        }
