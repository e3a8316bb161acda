"""Where the columns of a result come from: which columns of which inputs, and in which way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Way(StrEnum):
    """How a column gets into what is made of it: as OpenLineage calls its transformations."""

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    JOIN = "JOIN"
    GROUP_BY = "GROUP_BY"
    FILTER = "FILTER"
    SORT = "SORT"
    WINDOW = "WINDOW"
    CONDITIONAL = "CONDITIONAL"

    @property
    def direct(self) -> bool:
        """Whether the value itself goes on, and not only decides what happens to others."""
        return self in DIRECT

    @property
    def type(self) -> str:
        return "DIRECT" if self.direct else "INDIRECT"

    def then(self, later: Way) -> Way:
        """What two ways, one after the other, come to."""
        if not later.direct:
            return later
        if not self.direct:
            return self
        return max(self, later, key=DIRECT.index)


DIRECT = (Way.IDENTITY, Way.TRANSFORMATION, Way.AGGREGATION)
"""The further behind, the less is left of the value."""


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A column of an input, by the name the asset calls the input, and the way it takes."""

    input: str
    column: str
    way: Way

    def then(self, later: Way) -> Origin:
        return Origin(self.input, self.column, self.way.then(later))


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    columns: Mapping[str, tuple[Origin, ...]]
    """By the columns of the result, in their order."""
    rows: tuple[Origin, ...] = ()
    """What decides which rows there are, so that all columns depend on it."""
