"""The version of a dataset that an asset reads, as the registry records it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class InputVersion:
    """What the door of an input has to find: these fragments, these files, so many rows."""

    input: str
    dataset: UUID
    version: int | None
    """None if the run makes some of the fragments itself: they are in no version yet."""
    fragments: tuple[UUID, ...]
    files: tuple[str, ...]
    """The paths of the data files below the folder of the dataset."""
    rows: int

    def __str__(self) -> str:
        version = f" v{self.version}" if self.version is not None else ""
        return f"{self.input}{version}"

    @property
    def extent(self) -> str:
        count = len(self.fragments)
        return f"{self.rows:,} rows in {count:,} fragment{'' if count == 1 else 's'}"

    def to_json(self) -> dict[str, Any]:
        return {
            "input": self.input,
            "dataset": str(self.dataset),
            "version": self.version,
            "fragments": [str(fragment) for fragment in self.fragments],
            "files": list(self.files),
            "rows": self.rows,
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> InputVersion:
        return cls(
            input=str(found["input"]),
            dataset=UUID(found["dataset"]),
            version=found["version"],
            fragments=tuple(map(UUID, found["fragments"])),
            files=tuple(map(str, found["files"])),
            rows=int(found["rows"]),
        )
