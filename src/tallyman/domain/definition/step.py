"""The steps a Frame is made of: what is done to rows, as data. Expressions are SQL or Columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from tallyman.domain.definition.frame import Frame

Expression = object
"""SQL text, or a pyspark Column, which only the engine looks into."""

LOADING = 0
"""The number of what happens before the first step: rows are loaded, not changed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    kind: ClassVar[str] = "step"
    name: str | None = None
    seq: int | None = None
    """Its number in the chain. None: the next ten; LOADING: a step that its author never wrote."""


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


# ---- steps on a working set: rows are changed in place, and each change is recorded ----------


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """A reference that one step looks rows up in, as `alias.column`."""

    alias: str
    other: Frame
    on: object


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Update(Step):
    kind = "update"
    set: tuple[tuple[str, Expression], ...]
    where: Expression | None = None
    join: tuple[Lookup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Delete(Step):
    kind = "delete"
    where: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Aggregate(Step):
    kind = "aggregate"
    by: tuple[str, ...]
    aggregates: tuple[tuple[str, Expression], ...]
    where: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Append(Step):
    kind = "append"
    other: Frame


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Output(Step):
    kind = "output"
    path: str
    columns: tuple[str, ...] | None = None
    include_deleted: bool = False
    format: str = "parquet"
    register_as: str | None = None


WORKING = (Update, Delete, Aggregate, Append, Output)
CHANGES = (Update, Delete, Aggregate, Append)
"""Steps that make an asset a traced one, unless it says otherwise."""
COMBINES = (GroupBy, Explode, Union, DropDuplicates)
"""Steps after which rows are other rows: a working set begins behind the last of them."""
