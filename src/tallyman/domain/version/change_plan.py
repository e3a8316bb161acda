"""Change plans: what an edit of the pipeline will create, rebuild, reuse and remove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tallyman.domain.codec import to_plain


class Action(StrEnum):
    CREATE = "create"
    REBUILD = "rebuild"
    PUBLISH = "publish"
    """Nothing is made; more of what is there is published."""
    REUSE = "reuse"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The cost of making a target before: medians of the newest results, for one target."""

    results: int
    seconds: float
    rows: int
    bytes: int

    def times(self, targets: int) -> Estimate:
        many = (self.seconds * targets, self.rows * targets, self.bytes * targets)
        return Estimate(results=self.results, seconds=many[0], rows=many[1], bytes=many[2])

    def __str__(self) -> str:
        return f"about {self.seconds:,.1f} s, {self.rows:,} rows, {self.bytes:,} bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The planned action for one asset or table, and its reason. Numbers describe the current
    state.
    """

    name: str
    dataset: str
    action: Action
    reason: str
    version: int | None = None
    rows: int | None = None
    partitions: tuple[str, ...] | None = None
    """The partitions to make; None if the asset has no partitions."""
    dataset_id: str | None = None
    rename_to: str | None = None
    publish: bool | None = None
    """True to show the dataset to outside readers, False to hide it; None: no change."""
    estimate: Estimate | None = None
    """The expected cost of building it, if it was built before."""

    @property
    def builds(self) -> bool:
        return self.action in (Action.CREATE, Action.REBUILD)

    def __str__(self) -> str:
        at = f" v{self.version}, {self.rows:,} rows" if self.version else ""
        count = None if self.partitions is None else len(self.partitions)
        counted = "" if count is None else f", {count} partition{'s' if count != 1 else ''}"
        said = f"{self.action.value:<8} {self.dataset}{at}{counted if self.builds else ''}"
        if self.rename_to:
            said += f"; its dataset will be called {self.rename_to} (metadata only)"
        if self.publish is not None:
            said += f"; {'to be shown to' if self.publish else 'to be hidden from'} outside readers"
        cost = f"; {self.estimate}" if self.estimate else ""
        return f"{said}: {self.reason}{cost}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    id: str
    pipeline_from: str | None
    pipeline_to: str
    planned: tuple[Planned, ...]
    expected: Mapping[str, int] = field(default_factory=dict)
    """The version of every dataset of the project when the plan was made, by id."""

    @property
    def runs(self) -> list[Planned]:
        """List the assets that a run takes up: to build them, or to publish more of them."""
        return [one for one in self.planned if one.builds or one.action is Action.PUBLISH]

    @property
    def builds(self) -> list[Planned]:
        return [one for one in self.planned if one.builds]

    @property
    def estimate(self) -> Estimate | None:
        """Add up what is known about the builds; None if nothing is."""
        known = [one.estimate for one in self.builds if one.estimate]
        if not known:
            return None
        return Estimate(
            results=sum(one.results for one in known),
            seconds=sum(one.seconds for one in known),
            rows=sum(one.rows for one in known),
            bytes=sum(one.bytes for one in known),
        )

    @property
    def empty(self) -> bool:
        """True if there is nothing to build, remove or rename."""
        metadata = any(one.rename_to or one.publish is not None for one in self.planned)
        return not metadata and all(one.action is Action.REUSE for one in self.planned)

    def to_json(self) -> dict[str, Any]:
        return to_plain(self)
