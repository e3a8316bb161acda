"""An assignment, all that making one target needs from the database, and its outcome: both as
plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from tallyman.control.bind.pinned_files import AssignedInput
from tallyman.domain.history.lineage_event import LineageEvent
from tallyman.domain.history.materialization import Made, Materialization, RunRecord
from tallyman.domain.history.options import Options
from tallyman.domain.history.run import AssetResult
from tallyman.domain.pipeline.approval import Approval
from tallyman.domain.pipeline.target import Target
from tallyman.domain.version.dataset import Dataset, Fragment


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierResult:
    """The last success of a target by its current definition, whose files are there."""

    made: Materialization
    rows: int
    """The rows that readers see of the target when this result is current."""
    rejections: UUID | None = None
    """The fragment with its rejections, if they were prepared for the declared dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    run: RunRecord
    target: Target
    attempt: int
    options: Options
    inputs: Mapping[str, AssignedInput]
    """The datasets to read, by the name of the input. Sources are listed when it is made."""
    datasets: Mapping[str, Dataset]
    """The datasets that it may fill, by name."""
    own: str
    """The name of the asset's own dataset."""
    there: tuple[Fragment, ...] = ()
    """The published fragments that new rows are appended to."""
    before: Mapping[str, int] = field(default_factory=dict)
    """The records that the current version was made from, by input."""
    earlier: EarlierResult | None = None
    opened: Mapping[str, UUID] = field(default_factory=dict)
    """The fragments that were opened for it beforehand, by the name of their dataset. Without them
    each is opened when it is needed."""


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
