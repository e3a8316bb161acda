"""A Frame is a plan: an input and a list of steps. Nothing is evaluated by building one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tallyman.domain.step import Drop as DropStep
from tallyman.domain.step import (
    DropDuplicates,
    Expect,
    Explode,
    Expression,
    Filter,
    GroupBy,
    Join,
    Rename,
    Select,
    Step,
    Union,
    WithColumns,
)
from tallyman.errors import UnaccountableOperation, UsageError

SAFE_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")

ALTERNATIVES: Mapping[str, str] = {
    "limit": "Use filter on a key or a date, so that the rows left out have a reason.",
    "head": "Use `tallyman show`, or read the output after the run.",
    "sample": 'Use filter on a hash of the key, for example "pmod(xxhash64(id), 100) < 5".',
    "rdd": "Use withColumn, filter and expect with SQL expressions.",
    "mapInPandas": "Use withColumn with SQL functions; a Python function per batch hides its rows.",
    "mapInArrow": "Use withColumn with SQL functions; a Python function per batch hides its rows.",
    "dropna": 'Use expect (reject) or filter (drop) with "column IS NOT NULL".',
    "fillna": 'Use withColumn with "coalesce(column, value)".',
    "distinct": "Use dropDuplicates(), which records the rows it leaves out.",
    "subtract": 'Use join(..., unmatched="keep") and filter.',
    "intersect": 'Use join(..., unmatched="filter").',
    "exceptAll": 'Use join(..., unmatched="keep") and filter.',
    "crossJoin": 'Use join(..., fanout="expand"), which records parent and child.',
    "collect": "Assets only describe; read the output after the run.",
    "count": "The ledger counts every step; see `tallyman show`.",
    "show": "Assets only describe; use `tallyman show` after the run.",
    "orderBy": "Rows of a dataset have no order; sort where you read.",
    "sort": "Rows of a dataset have no order; sort where you read.",
    "selectExpr": "Use select: it takes SQL expressions.",
    "agg": "Use groupBy(...).agg(...).",
    "cache": "Each segment is evaluated once anyway.",
    "persist": "Each segment is evaluated once anyway.",
    "repartition": "The engine decides the partitioning; set spark conf in tallyman.yaml.",
    "write": "Return the Frame: the engine writes it.",
}


def _step_name(name: str | None) -> str | None:
    if name is not None and not SAFE_NAME.fullmatch(name):
        raise UsageError(f"step name {name!r}: use letters, digits, '.', '_' and '-', at most 64")
    return name


def _one_of(what: str, given: str, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise UsageError(f"{what} is {' or '.join(map(repr, allowed))}, not {given!r}")


@dataclass(frozen=True, eq=False, repr=False)
class Frame:
    """The methods and the meaning of pyspark.sql.DataFrame, for what can be accounted for."""

    input: str
    step: Step | None = None
    parent: Frame | None = None

    def steps(self) -> Iterator[Step]:
        """In the order they were written."""
        if self.parent is not None:
            yield from self.parent.steps()
        if self.step is not None:
            yield self.step

    def _then(self, step: Step) -> Frame:
        return Frame(self.input, step, self)

    def select(self, *columns: Expression, name: str | None = None) -> Frame:
        listed = columns[0] if len(columns) == 1 and isinstance(columns[0], list) else columns
        return self._then(Select(columns=tuple(listed), name=_step_name(name)))

    def drop(self, *columns: str, name: str | None = None) -> Frame:
        return self._then(DropStep(columns=tuple(columns), name=_step_name(name)))

    def withColumn(self, column: str, expression: Expression, *, name: str | None = None) -> Frame:
        return self.withColumns({column: expression}, name=name)

    def withColumns(self, columns: Mapping[str, Expression], *, name: str | None = None) -> Frame:
        return self._then(WithColumns(columns=tuple(columns.items()), name=_step_name(name)))

    def withColumnRenamed(self, existing: str, new: str, *, name: str | None = None) -> Frame:
        return self._then(Rename(old=existing, new=new, name=_step_name(name)))

    def filter(
        self, condition: Expression, *, reason: str | None = None, name: str | None = None
    ) -> Frame:
        """Keep rows for which the condition is true; false and NULL are FILTERED."""
        return self._then(Filter(predicate=condition, reason=reason, name=_step_name(name)))

    where = filter

    def expect(
        self, rule: str, condition: Expression, *, code: str | None = None, name: str | None = None
    ) -> Frame:
        """Reject rows for which the condition is not true; each becomes a dead-letter record."""
        if not SAFE_NAME.fullmatch(rule):
            raise UsageError(f"rule {rule!r}: use letters, digits, '.', '_' and '-', at most 64")
        return self._then(Expect(rule=rule, predicate=condition, code=code, name=_step_name(name)))

    def join(
        self,
        other: Frame,
        on: object,
        how: str = "inner",
        *,
        unmatched: str | None = None,
        fanout: str = "error",
        name: str | None = None,
    ) -> Frame:
        """Look each row up in `other`, a pinned reference. This side is the one accounted for."""
        if not isinstance(other, Frame):
            raise UsageError(f"join needs another input of the asset, not {type(other).__name__}")
        _one_of("how", how, ("inner", "left"))
        unmatched = unmatched or ("error" if how == "inner" else "keep")
        _one_of("unmatched", unmatched, ("error", "filter", "keep"))
        if how == "inner" and unmatched == "keep":
            raise UsageError('unmatched="keep" is a left join: say how="left"')
        _one_of("fanout", fanout, ("error", "expand"))
        return self._then(
            Join(
                other=other,
                on=on,
                how=how,
                unmatched=unmatched,
                fanout=fanout,
                name=_step_name(name),
            )
        )

    def groupBy(self, *columns: str) -> Grouped:
        listed = columns[0] if len(columns) == 1 and isinstance(columns[0], list) else columns
        for column in listed:
            if not isinstance(column, str):
                raise UsageError("groupBy takes column names; compute one with withColumn first")
        return Grouped(self, tuple(listed))

    def explode(
        self, column: str, alias: str | None = None, *, outer: bool = False, name: str | None = None
    ) -> Frame:
        """One row per element of an array. The parent is EXPLODED; a parent without elements is
        FILTERED, or kept with a NULL when `outer`."""
        return self._then(
            Explode(column=column, alias=alias or column, outer=outer, name=_step_name(name))
        )

    def union(self, other: Frame, *, name: str | None = None) -> Frame:
        """The rows of both, columns by position. Both sides are accounted for."""
        return self._then(Union(other=other, by_name=False, name=_step_name(name)))

    unionAll = union  # noqa: N815  PySpark's own spelling

    def unionByName(self, other: Frame, *, name: str | None = None) -> Frame:
        return self._then(Union(other=other, by_name=True, name=_step_name(name)))

    def dropDuplicates(
        self, subset: Sequence[str] | None = None, *, name: str | None = None
    ) -> Frame:
        """Of rows that agree on `subset` the one with the smallest key stays; the rest: FILTERED"""
        columns = None if subset is None else tuple(subset)
        return self._then(DropDuplicates(subset=columns, name=_step_name(name)))

    drop_duplicates = dropDuplicates

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnaccountableOperation(f"Frame.{name}", _alternative(name))

    def __getitem__(self, name: object) -> NoReturn:
        raise UnaccountableOperation("Frame[...]", "Name columns in SQL text or with F.col(name).")

    def __iter__(self) -> NoReturn:
        raise UnaccountableOperation("Iterating over a Frame", ALTERNATIVES["collect"])

    def __repr__(self) -> str:
        return f"Frame({self.input!r}, {[step.kind for step in self.steps()]})"


@dataclass(frozen=True, slots=True)
class Grouped:
    frame: Frame
    by: tuple[str, ...]

    def agg(self, *columns: object, name: str | None = None, **aggregates: Expression) -> Frame:
        """`agg(total="sum(price)")`, or Columns with an alias."""
        named = [(_alias_of(column), column) for column in columns]
        if not named and not aggregates:
            raise UsageError('agg needs at least one aggregate, for example n="count(*)"')
        step = GroupBy(by=self.by, aggregates=(*named, *aggregates.items()), name=_step_name(name))
        return Frame(self.frame.input, step, self.frame)

    def count(self, *, name: str | None = None) -> Frame:
        return self.agg(name=name, count="count(*)")


def _alias_of(column: object) -> str:
    """The name a Column was given; read from its text, because domain knows no Spark."""
    found = re.search(r"\bAS\s+`?([^`']+?)`?'>$", str(column))
    if isinstance(column, str) or not found:
        raise UsageError('name each aggregate: agg(total="sum(x)") or F.sum("x").alias("total")')
    return found.group(1)


def _alternative(name: str) -> str:
    if name in ALTERNATIVES:
        return ALTERNATIVES[name]
    verbs = [
        verb for verb in vars(Frame) if not verb.startswith("_") and callable(vars(Frame)[verb])
    ]
    near = difflib.get_close_matches(name, verbs, 1)
    meant = f"Did you mean {near[0]!r}? " if near else ""
    return f"{meant}A Frame has: {', '.join(sorted(set(verbs) - {'steps'}))}."
