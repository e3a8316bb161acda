"""The steps on a working set: rows are changed in place, and each change is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallyman.domain.definition.column_lineage import Way
from tallyman.domain.definition.expression import Expression
from tallyman.domain.definition.step_facts import (
    Assigned,
    Lookup,
    Operand,
    Pairs,
    Step,
    by_names,
    computed,
    listed,
    said_where,
    when,
)

if TYPE_CHECKING:
    from tallyman.domain.definition.frame import Frame


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Update(Step):
    kind = "update"
    holds = ("set", "where")
    in_place = True
    changes_rows = True
    in_order = True
    respells = False
    set: Pairs
    where: Expression | None = None
    join: tuple[Lookup, ...] = ()

    def assigns(self) -> tuple[Assigned, ...]:
        return computed(self.set, keeps=self.where is not None)

    def decided_by(self) -> tuple[Operand, ...]:
        return when(self.where, Way.CONDITIONAL)

    @property
    def references(self) -> tuple[Lookup, ...]:
        return self.join

    def text(self) -> str:
        return said_where(listed(self.set), self.where)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Delete(Step):
    kind = "delete"
    holds = ("where",)
    in_place = True
    changes_rows = True
    where: Expression | None = None

    def decided_by(self) -> tuple[Operand, ...]:
        return when(self.where, Way.FILTER)

    def text(self) -> str:
        return said_where("all rows" if self.where is None else "rows", self.where)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Aggregate(Step):
    kind = "aggregate"
    holds = ("aggregates", "where")
    in_place = True
    changes_rows = True
    adds_rows = True
    looks_at_other_rows = True
    by: tuple[str, ...]
    aggregates: Pairs
    where: Expression | None = None

    def assigns(self) -> tuple[Assigned, ...]:
        return computed(self.aggregates, Way.AGGREGATION, keeps=True)

    def decided_by(self) -> tuple[Operand, ...]:
        return (*by_names(self.by, Way.GROUP_BY), *when(self.where, Way.FILTER))

    def text(self) -> str:
        return said_where(f"by {', '.join(self.by)}: {listed(self.aggregates)}", self.where)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Append(Step):
    kind = "append"
    in_place = True
    changes_rows = True
    other: Frame

    @property
    def inflow(self) -> Frame:
        return self.other

    def text(self) -> str:
        return f"rows of {self.other.input}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Output(Step):
    kind = "output"
    in_place = True
    path: str
    columns: tuple[str, ...] | None = None
    include_deleted: bool = False
    format: str = "parquet"
    register_as: str | None = None

    def text(self) -> str:
        return f"to {self.path}"
