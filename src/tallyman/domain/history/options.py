"""The options of a run, and how the registry stores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
