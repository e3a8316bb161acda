"""The steps a Frame is made of: what is done to rows, as data. Expressions are SQL or Columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from tallyman.domain.frame import Frame

Expression = object
"""SQL text, or a pyspark Column, which only the engine looks into."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    kind: ClassVar[str] = "step"
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Select(Step):
    kind = "select"
    columns: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drop(Step):
    kind = "drop"
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WithColumns(Step):
    kind = "withColumn"
    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rename(Step):
    kind = "withColumnRenamed"
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Filter(Step):
    kind = "filter"
    predicate: Expression
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expect(Step):
    kind = "expect"
    rule: str
    predicate: Expression
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Join(Step):
    kind = "join"
    other: Frame
    on: object
    how: str
    unmatched: str
    fanout: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupBy(Step):
    kind = "groupBy"
    by: tuple[str, ...]
    aggregates: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explode(Step):
    kind = "explode"
    column: str
    alias: str
    outer: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Union(Step):
    kind = "union"
    other: Frame
    by_name: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DropDuplicates(Step):
    kind = "dropDuplicates"
    subset: tuple[str, ...] | None
