"""Column lineage: which columns of which inputs a column of the result comes from, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Way(StrEnum):
    """The way a column contributes to another one, in the terms of OpenLineage."""

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
        """True if the value itself goes into the result; False if it only decides about other
        values.
        """
        return self in DIRECT

    @property
    def type(self) -> str:
        return "DIRECT" if self.direct else "INDIRECT"

    def then(self, later: Way) -> Way:
        """Combine two ways that follow each other into one."""
        if not later.direct:
            return later
        if not self.direct:
            return self
        return max(self, later, key=DIRECT.index)


DIRECT = (Way.IDENTITY, Way.TRANSFORMATION, Way.AGGREGATION)
"""Direct ways, by how little of the value is left: the last keeps the least."""


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A column of an input, with the name that the asset gives the input, and its way."""

    input: str
    column: str
    way: Way

    def then(self, later: Way) -> Origin:
        return Origin(self.input, self.column, self.way.then(later))


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    columns: Mapping[str, tuple[Origin, ...]]
    """The origins of each column of the result, in column order."""
    rows: tuple[Origin, ...] = ()
    """Columns that decide which rows exist, so that every column depends on them."""
