"""The outcome of making a target: what is to be recorded, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.materialization import Made
from tallyman.domain.history.run import AssetResult
from tallyman.domain.pipeline.approval import Approval
from tallyman.domain.pipeline.target import Target
from tallyman.domain.version.dataset import Fragment


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOutcome:
    """A new result, an earlier one that is reused, or neither: then the target failed or was
    canceled."""

    target: Target
    result: AssetResult
    metadata: Mapping[str, Any]
    made: Made | None = None
    asks: Approval | None = None
    """The question that a person has to answer before the result counts."""
    reused: UUID | None = None
    rejections: Fragment | None = None
    """The rejections of a reused result, if they are published only since."""
    events: tuple[LineageEvent, ...] = ()
    retryable: bool = False
    """True if the target failed and another attempt may succeed."""

    def after(self, events: Sequence[LineageEvent]) -> TargetOutcome:
        """Return the outcome with events that were built before its own."""
        return replace(self, events=(*events, *self.events))
