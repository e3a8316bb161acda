"""The steps of a Frame as data, with the facts of each verb."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tallyman.domain.definition.column_lineage import Way
from tallyman.domain.definition.expression import Expression
from tallyman.domain.definition.step_facts import (
    EVERY_COLUMN,
    Assigned,
    Lookup,
    On,
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

otherwise = "true"
"""The condition of an output that takes every row that fits no output before it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Select(Step):
    kind = "select"
    holds = ("columns",)
    only_columns = True
    columns: tuple[Expression, ...]

    def assigns(self) -> tuple[Assigned, ...]:
        return tuple(Assigned(None, Operand(each)) for each in self.columns)

    @property
    def keeps_only(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drop(Step):
    kind = "drop"
    only_columns = True
    columns: tuple[str, ...]

    def drops(self) -> tuple[str, ...]:
        return self.columns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WithColumns(Step):
    kind = "withColumn"
    holds = ("columns",)
    only_columns = True
    columns: Pairs

    def assigns(self) -> tuple[Assigned, ...]:
        return computed(self.columns)

    def text(self) -> str:
        return listed(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rename(Step):
    kind = "withColumnRenamed"
    only_columns = True
    old: str
    new: str

    def renames(self) -> Mapping[str, str]:
        return {self.old: self.new}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Filter(Step):
    kind = "filter"
    holds = ("predicate",)
    predicate: Expression
    reason: str | None = None

    def decided_by(self) -> tuple[Operand, ...]:
        return when(self.predicate, Way.FILTER)

    def text(self) -> str:
        return said_where("keep rows", self.predicate)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expect(Step):
    kind = "expect"
    holds = ("predicate",)
    rule: str
    predicate: Expression
    code: str | None = None
    severity: str = "reject"
    """`reject`: the row is rejected; `fail`: and one such row stops the asset."""

    @property
    def rejects(self) -> bool:
        return True

    def decided_by(self) -> tuple[Operand, ...]:
        return when(self.predicate, Way.FILTER)

    def rejects_as(self, step_id: str) -> str:
        return self.rule

    def text(self) -> str:
        return f"{self.rule}: {self.predicate}"


def _closed(condition: Expression) -> str:
    """End a comment that would hide what follows."""
    return f"{condition}\n" if "--" in condition else condition


def route(outputs: Pairs) -> str:
    """Write an expression with the name of a row's output. The first true condition decides; NULL
    is not true. Every use of a split evaluates this one expression."""
    last = outputs[-1]
    has_rest = last[1].strip().lower() == otherwise
    cases = outputs[:-1] if has_rest else outputs
    rest = f"ELSE '{last[0]}' " if has_rest else ""
    text = " ".join(f"WHEN ({_closed(condition)}) THEN '{name}'" for name, condition in cases)
    return f"CASE {text} {rest}END"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split(Expect):
    """The last step of an asset with named outputs: a row that fits none of them is rejected."""

    kind = "split"
    holds = ("predicate", "outputs")
    outputs: Pairs

    @property
    def route(self) -> str:
        return route(self.outputs)

    @property
    def rejects(self) -> bool:
        """False if the last output takes every row that is left."""
        return self.outputs[-1][1].strip().lower() != otherwise

    def decided_by(self) -> tuple[Operand, ...]:
        each = (Operand(condition, Way.FILTER) for _, condition in self.outputs)
        return (*when(self.predicate, Way.FILTER), *each)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Warn(Step):
    """An expectation that rows may break: they are counted, and all go on."""

    kind = "warn"
    verb = "expect"
    severity: ClassVar[str] = "warn"
    holds = ("predicate",)
    rule: str
    predicate: Expression

    def decided_by(self) -> tuple[Operand, ...]:
        return when(self.predicate, Way.CONDITIONAL)

    def text(self) -> str:
        return f"{self.rule}: {self.predicate}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Join(Step):
    kind = "join"
    other: Frame
    on: On
    how: str
    unmatched: str
    fanout: str
    max_unmatched: str | None = None
    """The most records that may find no match: a number, or a share such as `5%`."""

    @property
    def references(self) -> tuple[Lookup, ...]:
        return (Lookup("", self.other, self.on),)

    @property
    def multiplies(self) -> bool:
        return self.fanout == "expand"

    @property
    def rejects(self) -> bool:
        return self.unmatched == "error"

    def rejects_as(self, step_id: str) -> str:
        return step_id


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupBy(Step):
    kind = "groupBy"
    holds = ("aggregates",)
    groups = True
    looks_at_other_rows = True
    by: tuple[str, ...]
    aggregates: Pairs

    @property
    def keeps_only(self) -> tuple[str, ...]:
        return self.by

    def assigns(self) -> tuple[Assigned, ...]:
        return computed(self.aggregates, Way.AGGREGATION)

    def decided_by(self) -> tuple[Operand, ...]:
        return by_names(self.by, Way.GROUP_BY)

    @property
    def distinct_by(self) -> tuple[str, ...]:
        return self.by


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explode(Step):
    kind = "explode"
    multiplies = True
    column: str
    alias: str
    outer: bool

    def assigns(self) -> tuple[Assigned, ...]:
        return (Assigned(self.alias, Operand(self.column, Way.TRANSFORMATION, is_name=True)),)

    def decided_by(self) -> tuple[Operand, ...]:
        # The array decides how many rows there are, and whether there is one at all.
        return by_names((self.column,), Way.FILTER)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Union(Step):
    kind = "union"
    combines = True
    other: Frame
    by_name: bool

    @property
    def verb(self) -> str:
        return "unionByName" if self.by_name else "union"

    @property
    def inflow(self) -> Frame:
        return self.other

    @property
    def meets_by_name(self) -> bool:
        return self.by_name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DropDuplicates(Step):
    kind = "dropDuplicates"
    combines = True
    looks_at_other_rows = True
    subset: tuple[str, ...] | None

    def decided_by(self) -> tuple[Operand, ...]:
        return by_names((EVERY_COLUMN,) if self.subset is None else self.subset, Way.GROUP_BY)

    @property
    def distinct_by(self) -> tuple[str, ...] | None:
        return self.subset
