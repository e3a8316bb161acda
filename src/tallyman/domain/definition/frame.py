"""A Frame is a plan: an input and a list of steps. Nothing is evaluated by building one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tallyman.domain.definition.arguments import (
    ALIAS,
    ALTERNATIVES,
    OUTPUT_FORMATS,
    SAFE_NAME,
    aggregate_of,
    aggregates_of,
    check_path,
    condition,
    group,
    most,
    one_of,
    step_name,
    step_number,
)
from tallyman.domain.definition.expression import Given
from tallyman.domain.definition.step import Drop as DropStep
from tallyman.domain.definition.step import (
    DropDuplicates,
    Expect,
    Explode,
    Filter,
    GroupBy,
    Join,
    Rename,
    Select,
    Union,
    Warn,
    WithColumns,
)
from tallyman.domain.definition.step_facts import Lookup, Step
from tallyman.domain.definition.working_step import Aggregate, Append, Delete, Output, Update
from tallyman.errors import UnaccountableOperation, UsageError


@dataclass(frozen=True, eq=False, repr=False)
class Frame:
    """A plan with the methods and semantics of pyspark.sql.DataFrame that can be accounted for."""

    input: str
    step: Step | None = None
    parent: Frame | None = None

    def steps(self) -> Iterator[Step]:
        """Yield the steps in the order they were written."""
        found: list[Step] = []
        frame: Frame | None = self
        while frame is not None and frame.step is not None:
            found.append(frame.step)
            frame = frame.parent
        return reversed(found)

    def _then(self, step: Step) -> Frame:
        return Frame(self.input, step, self)

    def select(self, *columns: Given, name: str | None = None) -> Frame:
        listed = columns[0] if len(columns) == 1 and isinstance(columns[0], list) else columns
        return self._then(Select(columns=tuple(listed), name=step_name(name)))

    def drop(self, *columns: str, name: str | None = None) -> Frame:
        return self._then(DropStep(columns=tuple(columns), name=step_name(name)))

    def withColumn(self, column: str, expression: Given, *, name: str | None = None) -> Frame:
        return self.withColumns({column: expression}, name=name)

    def withColumns(self, columns: Mapping[str, Given], *, name: str | None = None) -> Frame:
        return self._then(WithColumns(columns=tuple(columns.items()), name=step_name(name)))

    def withColumnRenamed(self, existing: str, new: str, *, name: str | None = None) -> Frame:
        return self._then(Rename(old=existing, new=new, name=step_name(name)))

    def filter(
        self, condition: Given, *, reason: str | None = None, name: str | None = None
    ) -> Frame:
        """Keep rows for which the condition is true; false and NULL are FILTERED."""
        return self._then(Filter(predicate=condition, reason=reason, name=step_name(name)))

    where = filter

    def expect(
        self,
        rule: str,
        condition: Given,
        *,
        code: str | None = None,
        severity: str = "reject",
        name: str | None = None,
    ) -> Frame:
        """Reject rows for which the condition is not true; each becomes a dead-letter record.

        With severity "warn" such rows are counted and go on; with "fail" one of them stops the
        asset, and nothing is published.
        """
        if not SAFE_NAME.fullmatch(rule):
            raise UsageError(f"rule {rule!r}: use letters, digits, '.', '_' and '-', at most 64")
        one_of("severity", severity, ("warn", "reject", "fail"))
        if severity == "warn":
            if code is not None:
                raise UsageError(f"rule {rule!r}: a warning rejects nothing and has no code")
            return self._then(Warn(rule=rule, predicate=condition, name=step_name(name)))
        return self._then(
            Expect(
                rule=rule,
                predicate=condition,
                code=code,
                severity=severity,
                name=step_name(name),
            )
        )

    def join(  # noqa: PLR0913  one keyword for each property of a join
        self,
        other: Frame,
        on: Given,
        how: str = "inner",
        *,
        unmatched: str | None = None,
        fanout: str = "error",
        max_unmatched: str | int | None = None,
        name: str | None = None,
    ) -> Frame:
        """Look each row up in `other`, a pinned reference. Only the rows of this side are accounted
        for. More rows without a match than `max_unmatched` ("5%", or a number) halt the asset.
        """
        if not isinstance(other, Frame):
            raise UsageError(f"join needs another input of the asset, not {type(other).__name__}")
        one_of("how", how, ("inner", "left"))
        unmatched = unmatched or ("error" if how == "inner" else "keep")
        one_of("unmatched", unmatched, ("error", "filter", "keep"))
        if how == "inner" and unmatched == "keep":
            raise UsageError('unmatched="keep" is a left join: set how="left"')
        one_of("fanout", fanout, ("error", "expand"))
        return self._then(
            Join(
                other=other,
                on=on,
                how=how,
                unmatched=unmatched,
                fanout=fanout,
                max_unmatched=most("max_unmatched", max_unmatched),
                name=step_name(name),
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
        """Make one row per element of an array; the parent is EXPLODED.

        A parent without elements is FILTERED, or kept with a NULL if `outer` is set.
        """
        return self._then(
            Explode(column=column, alias=alias or column, outer=outer, name=step_name(name))
        )

    def union(self, other: Frame, *, name: str | None = None) -> Frame:
        """Add the rows of `other`, columns by position. Both sides are accounted for."""
        return self._then(Union(other=other, by_name=False, name=step_name(name)))

    unionAll = union  # noqa: N815  the spelling of PySpark

    def unionByName(self, other: Frame, *, name: str | None = None) -> Frame:
        return self._then(Union(other=other, by_name=True, name=step_name(name)))

    def dropDuplicates(
        self, subset: Sequence[str] | None = None, *, name: str | None = None
    ) -> Frame:
        """Keep one row per value of `subset`, the one with the smallest key; FILTER the others."""
        columns = None if subset is None else tuple(subset)
        return self._then(DropDuplicates(subset=columns, name=step_name(name)))

    drop_duplicates = dropDuplicates

    # ---- on a working set: rows change in place, and every change is recorded ----------------

    def update(
        self,
        set: Mapping[str, Given],
        *,
        where: Given | None = None,
        join: Mapping[str, tuple[Frame, Given]] | None = None,
        name: str | None = None,
        seq: int | None = None,
    ) -> Frame:
        """Assign columns, in order, on the rows for which `where` is true; without it, on all rows.

        `join={"fx": (rates, "currency = code")}` looks each row up: expressions can use `fx.rate`.
        """
        if not set:
            raise UsageError('update needs at least one assignment, for example set={"x": "x + 1"}')
        step = Update(
            set=tuple(set.items()),
            where=condition(where),
            join=tuple(_lookup(alias, given) for alias, given in (join or {}).items()),
            name=step_name(name),
            seq=step_number(seq),
        )
        return self._then(step)

    def delete(
        self,
        where: Given | None = None,
        *,
        name: str | None = None,
        seq: int | None = None,
    ) -> Frame:
        """Mark rows as deleted, without a condition all rows; later steps do not see them."""
        step = Delete(where=condition(where), name=step_name(name), seq=step_number(seq))
        return self._then(step)

    def aggregate(
        self,
        by: Sequence[str],
        *,
        where: Given | None = None,
        name: str | None = None,
        seq: int | None = None,
        **aggregates: Given,
    ) -> Frame:
        """Add one row per group of the existing rows, which stay unchanged."""
        return self._aggregate(by, aggregates, where, name, seq)

    def _aggregate(
        self,
        by: Sequence[str],
        aggregates: Mapping[str, Given],
        where: Given | None = None,
        name: str | None = None,
        seq: int | None = None,
    ) -> Frame:
        """Aggregate into columns of any names: keywords cannot have every name."""
        step = Aggregate(
            by=group(by),
            aggregates=aggregates_of(aggregates),
            where=condition(where),
            name=step_name(name),
            seq=step_number(seq),
        )
        return self._then(step)

    def _group(
        self, by: Sequence[str], aggregates: Mapping[str, Given], name: str | None = None
    ) -> Frame:
        """Group into columns of any names. An empty list of columns makes one group."""
        made = aggregates_of(aggregates)
        return self._then(GroupBy(by=tuple(by), aggregates=made, name=step_name(name)))

    def append(
        self,
        source: Frame,
        *,
        where: Given | None = None,
        aggregate: Mapping[str, object] | None = None,
        name: str | None = None,
        seq: int | None = None,
    ) -> Frame:
        """Add the rows of another input, which is accounted for like the first.

        `aggregate={"by": ["account"], "set": {"amount": "sum(amount)"}}` adds its groups instead.
        """
        if not isinstance(source, Frame):
            raise UsageError(f"append needs an input of the asset, not {type(source).__name__}")
        if condition(where) is not None:
            source = source.filter(where, reason="not appended")
        if aggregate is not None:
            by, made, unknown = aggregate_of(aggregate)
            if unknown:
                raise UsageError(f"append, aggregate: unknown {unknown}; there are by and set")
            source = source._group(by, made)
        return self._then(Append(other=source, name=step_name(name), seq=step_number(seq)))

    def output(  # noqa: PLR0913  one keyword for each property of an output
        self,
        path: str,
        *,
        columns: Sequence[str] | None = None,
        include_deleted: bool = False,
        format: str | None = None,
        register_as: str | None = None,
        name: str | None = None,
        seq: int | None = None,
    ) -> Frame:
        """Write the current rows to a file or folder of the project. Changes no row."""
        check_path(path)
        suffix = re.search(r"\.\w+$", path)
        known = OUTPUT_FORMATS.get(suffix.group().lower()) if suffix else None
        one_of("format", chosen := format or known or "parquet", ("parquet", "csv", "json"))
        if known and known != chosen:
            raise UsageError(f"output to {path!r} in format {chosen!r}: the name means {known!r}")
        step = Output(
            path=path,
            columns=None if columns is None else tuple(columns),
            include_deleted=include_deleted,
            format=chosen,
            register_as=register_as,
            name=step_name(name),
            seq=step_number(seq),
        )
        return self._then(step)

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

    def agg(self, *columns: Given, name: str | None = None, **aggregates: Given) -> Frame:
        """Aggregate each group: `agg(total="sum(price)")`, or Columns with an alias."""
        named = [(_alias_of(column), column) for column in columns]
        if not named and not aggregates:
            raise UsageError('agg needs at least one aggregate, for example n="count(*)"')
        step = GroupBy(by=self.by, aggregates=(*named, *aggregates.items()), name=step_name(name))
        return Frame(self.frame.input, step, self.frame)

    def count(self, *, name: str | None = None) -> Frame:
        return self.agg(name=name, count="count(*)")


def _lookup(alias: str, given: object) -> Lookup:
    if not ALIAS.fullmatch(alias):
        raise UsageError(f"join {alias!r}: use letters, digits and '_', beginning with a letter")
    if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Frame)):
        raise UsageError(f'join {alias!r}: give (an input, "a condition"), not {given!r}')
    return Lookup(alias, *given)


def _alias_of(column: object) -> str:
    """Read the alias of a Column from its text, because domain does not import Spark."""
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
