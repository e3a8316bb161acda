"""An assignment: all that making one target needs from the database, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tallyman.control.bind.pinned_files import AssignedInput
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.options import Options
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
