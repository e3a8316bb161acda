"""Column lineage, read from a plan: nothing is evaluated, and no origin is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tallyman.domain.definition.column_lineage import ColumnLineage, Origin, Way
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import chain
from tallyman.domain.definition.step import (
    Aggregate,
    Append,
    Delete,
    Drop,
    DropDuplicates,
    Expect,
    Explode,
    Filter,
    GroupBy,
    Join,
    Lookup,
    Output,
    Rename,
    Select,
    Step,
    Union,
    Update,
    WithColumns,
)
from tallyman.engine.columns.names import selected_as
from tallyman.engine.columns.uses import Names, uses
from tallyman.engine.plan import plain
from tallyman.engine.plan.in_place import equalities, spelled
from tallyman.errors import UsageError

Origins = frozenset[Origin]
Columns = Mapping[str, Origins]
Inputs = Mapping[str, Sequence[str]]
"""The columns of each input, by the name the asset calls it."""
NONE: Origins = frozenset()


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a step looks rows up in: its columns, and what decides which row is found."""

    columns: Columns
    decides: Origins


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows on their way through a plan: where each of their columns comes from."""

    columns: Columns
    rows: Origins = NONE
    complete: bool = True
    """False when there are columns whose names only Spark knows."""
    looked: Mapping[str, _Looked] = field(default_factory=dict)

    def of(self, expression: object, later: Way = Way.IDENTITY) -> Origins:
        """Where the value of an expression comes from."""
        there = {alias: list(one.columns) for alias, one in self.looked.items()}
        found: set[Origin] = set()
        for use in uses(expression, Names(list(self.columns), there, self.complete)):
            one = None if use.alias is None else self.looked[use.alias]
            origins = (self.columns if one is None else one.columns)[use.column]
            found |= {origin.then(use.way).then(later) for origin in origins}
            found |= NONE if one is None else one.decides
        return frozenset(found)

    def named(self, name: str, later: Way = Way.IDENTITY) -> Origins:
        """Where a column comes from, by its whole name."""
        own = spelled(name, list(self.columns))
        if own is None:
            return NONE if self.complete else self.everything(later)
        return _then(self.columns[own], later)

    def all_named(self, names: Iterable[str], later: Way) -> Origins:
        return frozenset(origin for name in names for origin in self.named(name, later))

    def everything(self, later: Way = Way.TRANSFORMATION) -> Origins:
        origins = frozenset(origin for each in self.columns.values() for origin in each)
        return _then(origins, Way.TRANSFORMATION.then(later))

    def decided_by(self, origins: Origins) -> _Rows:
        return replace(self, rows=self.rows | origins)

    def with_columns(self, made: Mapping[str, Origins]) -> _Rows:
        """Replaced where they are, whatever the case of their names; else added behind."""
        columns = dict(self.columns)
        for name, origins in made.items():
            columns[spelled(name, list(columns)) or name] = origins
        return replace(self, columns=columns)


def column_lineage(
    plan: Frame, inputs: Inputs, output: Sequence[str] | None = None
) -> ColumnLineage:
    """Of the result. `output` are its columns as Spark names them, where that is known."""
    return _of_output(_trace(plan, inputs), output)


def registered_lineage(plan: Frame, inputs: Inputs) -> dict[str, ColumnLineage]:
    """Of what output steps register as datasets of their own, by their names."""
    found = {}
    for node in chain(plan):
        step = node.step
        if isinstance(step, Output) and step.register_as is not None:
            rows = _trace(node, inputs)
            named = [n for n in step.columns or rows.columns if spelled(n, list(rows.columns))]
            found[step.register_as] = _of_output(rows, named)
    return found


def _of_output(rows: _Rows, output: Sequence[str] | None) -> ColumnLineage:
    names = list(rows.columns)
    columns: dict[str, tuple[Origin, ...]] = {}
    for number, name in enumerate(names if output is None else output):
        own = spelled(name, names)
        if own is None and output is not None and len(output) == len(names):
            own = names[number]
        origins = rows.everything() if own is None else rows.columns[own]
        columns[name] = tuple(sorted(origins))
    return ColumnLineage(columns, tuple(sorted(rows.rows)))


def _trace(frame: Frame, inputs: Inputs) -> _Rows:
    columns = {
        name: frozenset({Origin(frame.input, name, Way.IDENTITY)}) for name in inputs[frame.input]
    }
    rows = _Rows(columns)
    for node in chain(frame):
        assert node.step is not None
        rows = _step(node.step, rows, lambda other: _trace(other, inputs))
    return rows


def _step(step: Step, rows: _Rows, other: Callable[[Frame], _Rows]) -> _Rows:
    match step:
        case Select():
            return _selected(step, rows)
        case Drop():
            gone = {name.lower() for name in step.columns}
            kept = {n: origins for n, origins in rows.columns.items() if n.lower() not in gone}
            return replace(rows, columns=kept)
        case WithColumns():
            return rows.with_columns({name: rows.of(value) for name, value in step.columns})
        case Rename():
            names = {spelled(step.old, list(rows.columns)): step.new}
            return replace(rows, columns={names.get(n, n): o for n, o in rows.columns.items()})
        case Explode():
            made = rows.with_columns({step.alias: rows.named(step.column, Way.TRANSFORMATION)})
            # How many rows there are, and whether there is one, is up to the array.
            return made.decided_by(rows.named(step.column, Way.FILTER))
        case Join():
            return _joined(step, rows, other(step.other))
        case Union() | Append():
            by_name = isinstance(step, Append) or step.by_name
            return _together(rows, other(step.other), by_name=by_name)
        case Update():
            return _updated(step, rows, other)
    return _left(step, rows)


def _left(step: Step, rows: _Rows) -> _Rows:
    """Steps that decide which rows there are, out of those there were."""
    match step:
        case Filter() | Expect():
            return rows.decided_by(rows.of(step.predicate, Way.FILTER))
        case Delete():
            return rows.decided_by(_where(step.where, rows, Way.FILTER))
        case DropDuplicates():
            named = rows.columns if step.subset is None else step.subset
            return rows.decided_by(rows.all_named(named, Way.GROUP_BY))
        case GroupBy():
            groups = {name: rows.named(name) for name in step.by}
            return replace(_grouped(step, rows), columns=groups | _aggregates(step, rows))
        case Aggregate():
            added = _aggregates(step, rows)
            made = {name: rows.named(name) | origins for name, origins in added.items()}
            where = _where(step.where, rows, Way.FILTER)
            return _grouped(step, rows).with_columns(made).decided_by(where)
        case Output():
            return rows  # it writes them, and changes nothing
    raise UsageError(f"unknown step {step.kind}")


def _then(origins: Origins, later: Way) -> Origins:
    return frozenset(origin.then(later) for origin in origins)


def _where(condition: object | None, rows: _Rows, way: Way) -> Origins:
    return NONE if condition is None else rows.of(condition, way)


def _selected(step: Select, rows: _Rows) -> _Rows:
    columns: dict[str, Origins] = {}
    complete = rows.complete
    for expression in step.columns:
        if plain.is_star(expression):
            columns |= rows.columns
            continue
        name, known = selected_as(expression, list(rows.columns))
        columns[name] = columns.get(name, NONE) | rows.of(expression)
        complete = complete and known
    return replace(rows, columns=columns, complete=complete)


def _grouped(step: GroupBy | Aggregate, rows: _Rows) -> _Rows:
    return rows.decided_by(rows.all_named(step.by, Way.GROUP_BY))


def _aggregates(step: GroupBy | Aggregate, rows: _Rows) -> dict[str, Origins]:
    return {name: rows.of(value, Way.AGGREGATION) for name, value in step.aggregates}


def _joined(step: Join, rows: _Rows, reference: _Rows) -> _Rows:
    pairs = plain.join_pairs(step.on, list(rows.columns), list(reference.columns))
    shared = {right.lower() for _, right in pairs} if plain.shares_names(step.on) else set()
    added = {n: o for n, o in reference.columns.items() if n.lower() not in shared}
    order = plain.joined_columns(step.on, list(rows.columns), list(added))
    columns = {name: rows.named(name) | added.get(name, NONE) for name in order}
    return _Rows(
        columns,
        rows.rows | reference.rows | _keys(pairs, rows, reference),
        rows.complete and reference.complete,
    )


def _keys(pairs: Iterable[tuple[str, str]], rows: _Rows, reference: _Rows) -> Origins:
    listed = list(pairs)
    left = rows.all_named((mine for mine, _ in listed), Way.JOIN)
    return left | reference.all_named((theirs for _, theirs in listed), Way.JOIN)


def _together(rows: _Rows, added: _Rows, *, by_name: bool) -> _Rows:
    names, theirs = list(rows.columns), list(added.columns)
    columns = dict(rows.columns)
    for number, name in enumerate(names):
        if by_name:
            columns[name] |= added.named(name)
        elif number < len(theirs):
            columns[name] |= added.columns[theirs[number]]
    both = rows.complete and added.complete
    if not by_name and len(names) != len(theirs):
        columns = {name: origins | added.everything() for name, origins in columns.items()}
    return _Rows(columns, rows.rows | added.rows, both)


def _updated(step: Update, rows: _Rows, other: Callable[[Frame], _Rows]) -> _Rows:
    looked = {each.alias: _looked(each, rows, other(each.other)) for each in step.join}
    now = replace(rows, looked=looked)
    # The condition is asked before the first assignment, and each of those sees the ones before.
    where = _where(step.where, now, Way.CONDITIONAL)
    for name, value in step.set:
        kept = NONE if step.where is None else now.named(name)
        now = now.with_columns({name: now.of(value) | kept | where})
    return replace(now, looked={})


def _looked(lookup: Lookup, rows: _Rows, reference: _Rows) -> _Looked:
    pairs = plain.join_pairs(equalities(lookup), list(rows.columns), list(reference.columns))
    return _Looked(reference.columns, reference.rows | _keys(pairs, rows, reference))
