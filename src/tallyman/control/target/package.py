"""A package: an assignment with all that a process without a database needs to make it, and what
that process sends back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tallyman.control.bind.describe import RunDescription
from tallyman.control.pipeline.shared import FoundShared
from tallyman.control.target.assignment import Assignment, TargetOutcome
from tallyman.domain.codec import of_plain, to_plain
from tallyman.engine.spark.settings import quiet_for
from tallyman.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPackage:
    assignment: Assignment
    settings: Settings
    """The settings of the project, without addresses of database and server, and the signing
    key."""
    version: str
    plan: str
    """The pipeline in its compiled form, and its hash."""
    shared: Mapping[str, FoundShared]
    """The datasets of other pipelines that the asset, and those before it, read."""
    describes: bool
    """True if the run is described by this target: it has no other."""
    pins: Mapping[str, Any] = field(default_factory=dict)
    """The inputs and outputs, as the task names them; not part of what is carried."""

    @property
    def process(self) -> dict[str, Any]:
        """Return what a process is bound to once it has made this target: it may make others with
        the same."""
        settings = self.settings
        return {
            "home": str(settings.home),
            "master": settings.master,
            "spark": dict(settings.spark),
            "quiet": quiet_for(settings.master, settings.redacted),
        }

    def to_json(self) -> dict[str, Any]:
        without = replace(self.settings, database=None, signing_key=None, server=None)
        return to_plain(replace(self, settings=without))

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> TargetPackage:
        return of_plain(cls, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeTarget:
    """The result of a package: how the target ended, and the description of its run."""

    outcome: TargetOutcome
    description: RunDescription | None = None

    def to_json(self) -> dict[str, Any]:
        return to_plain(self)

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> MadeTarget:
        return of_plain(cls, found)
