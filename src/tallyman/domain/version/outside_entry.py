"""Outside entries: the names under which outside readers find versions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideEntry:
    """A name that outside readers do not find as it was published. Locations are those of Iceberg
    metadata; None means that there is no such entry."""

    name: str
    dataset: UUID | None
    """The dataset that the name belongs to; None if it belongs to none."""
    expected: str | None
    found: str | None

    @property
    def difference(self) -> str:
        if self.found is None:
            return "missing: outside readers do not find it"
        if self.dataset is None:
            return "unknown: no dataset or snapshot has this name"
        if self.expected is None:
            return "visible to outside readers, although the dataset is hidden or has no rows"
        return f"changed: outside readers get {_short(self.found)}, not {_short(self.expected)}"

    def __str__(self) -> str:
        return f"published.{self.name}: {self.difference}"

    def to_json(self) -> dict[str, str | None]:
        return {
            "name": self.name,
            "expected": self.expected,
            "found": self.found,
            "difference": self.difference,
        }


def _short(location: str) -> str:
    return PurePosixPath(location).name or "nothing"
