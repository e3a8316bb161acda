"""Column lineage, derived from a plan: nothing is evaluated, and no origin is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tallyman.domain.definition.column_lineage import ColumnLineage, Origin, Way
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import chain
from tallyman.domain.definition.step import Split
from tallyman.domain.definition.step_facts import EVERY_COLUMN, Lookup, Operand, Step
from tallyman.domain.definition.working_step import Output
from tallyman.engine.columns.uses import Names, selected_as, uses
from tallyman.engine.plan import plain
from tallyman.engine.plan.in_place import equalities, spelled

Origins = frozenset[Origin]
Columns = Mapping[str, Origins]
Inputs = Mapping[str, Sequence[str]]
"""The columns of each input, by the name that the asset gives it."""
NONE: Origins = frozenset()


@dataclass(frozen=True, slots=True)
class _Looked:
    """A reference that a step looks rows up in: its columns, and what decides which row is
    found.
    """

    columns: Columns
    decides: Origins


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows on their way through a plan: the origins of each of their columns."""

    columns: Columns
    rows: Origins = NONE
    complete: bool = True
    """False if there are columns with names that only Spark knows."""
    looked: Mapping[str, _Looked] = field(default_factory=dict)

    def of(self, expression: str, later: Way = Way.IDENTITY) -> Origins:
        """Find the origins of an expression's value."""
        there = {alias: list(one.columns) for alias, one in self.looked.items()}
        found: set[Origin] = set()
        for use in uses(expression, Names(list(self.columns), there, self.complete)):
            one = None if use.alias is None else self.looked[use.alias]
            origins = (self.columns if one is None else one.columns)[use.column]
            found |= {origin.then(use.way).then(later) for origin in origins}
            found |= NONE if one is None else one.decides
        return frozenset(found)

    def named(self, name: str, later: Way = Way.IDENTITY) -> Origins:
        """Find the origins of a column, by its whole name."""
        own = spelled(name, list(self.columns))
        if own is None:
            return NONE if self.complete else self.everything(later)
        return _then(self.columns[own], later)

    def all_named(self, names: Iterable[str], later: Way) -> Origins:
        return frozenset(origin for name in names for origin in self.named(name, later))

    def of_operand(self, operand: Operand) -> Origins:
        if not operand.is_name:
            return self.of(operand.value, operand.way)
        name = operand.value
        return self.all_named(self.columns if name == EVERY_COLUMN else [name], operand.way)

    def all_of(self, operands: Iterable[Operand]) -> Origins:
        return frozenset(origin for each in operands for origin in self.of_operand(each))

    def everything(self, later: Way = Way.TRANSFORMATION) -> Origins:
        origins = frozenset(origin for each in self.columns.values() for origin in each)
        return _then(origins, Way.TRANSFORMATION.then(later))

    def decided_by(self, origins: Origins) -> _Rows:
        return replace(self, rows=self.rows | origins)

    def with_columns(self, made: Mapping[str, Origins]) -> _Rows:
        """Replace columns in place, ignoring case; append the others."""
        columns = dict(self.columns)
        for name, origins in made.items():
            columns[spelled(name, list(columns)) or name] = origins
        return replace(self, columns=columns)


def column_lineage(
    plan: Frame, inputs: Inputs, output: Sequence[str] | None = None
) -> ColumnLineage:
    """Derive the lineage of the result. `output` lists its columns as Spark names them, if
    known.
    """
    return _of_output(_trace(plan, inputs), output)


def registered_lineage(plan: Frame, inputs: Inputs) -> dict[str, ColumnLineage]:
    """Derive the lineage of datasets that output steps and a split register, by name."""
    found: dict[str, ColumnLineage] = {}
    for node in chain(plan):
        step = node.step
        if isinstance(step, Output) and step.register_as is not None:
            rows = _trace(node, inputs)
            named = [n for n in step.columns or rows.columns if spelled(n, list(rows.columns))]
            found[step.register_as] = _of_output(rows, named)
        if isinstance(step, Split):
            rows = _trace(node, inputs)
            found |= {name: _of_output(rows, list(rows.columns)) for name, _ in step.outputs}
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
    looked = {e.alias: _looked(e, rows, other(e.other)) for e in step.references if e.alias}
    before = replace(rows, looked=looked)
    now = _assigned(step, before)
    for lookup in step.references:
        now = now if lookup.alias else _joined(lookup, now, other(lookup.other))
    if step.inflow is not None:
        now = _together(now, other(step.inflow), by_name=step.meets_by_name)
    decides = [o for o in step.decided_by() if o.way is not Way.CONDITIONAL]
    return replace(now, looked={}).decided_by(before.all_of(decides))


def _assigned(step: Step, before: _Rows) -> _Rows:
    # A condition is evaluated before the first assignment.
    where = before.all_of(o for o in step.decided_by() if o.way is Way.CONDITIONAL)
    now = _kept(step, before)
    for each in step.assigns():
        seen = now if step.in_order else before
        if each.name is None:
            now = _selected(each.operand.value, before, now)
            continue
        kept = seen.named(each.name) if each.keeps else NONE
        now = now.with_columns({each.name: seen.of_operand(each.operand) | kept | where})
    return now


def _kept(step: Step, rows: _Rows) -> _Rows:
    """Keep the columns that a step leaves unchanged, with their names after it."""
    if step.keeps_only is not None:
        return replace(rows, columns={name: rows.named(name) for name in step.keeps_only})
    gone = {name.lower() for name in step.drops()}
    names = {spelled(old, list(rows.columns)): new for old, new in step.renames().items()}
    left = {n: origins for n, origins in rows.columns.items() if n.lower() not in gone}
    return replace(rows, columns={names.get(n, n): origins for n, origins in left.items()})


def _then(origins: Origins, later: Way) -> Origins:
    return frozenset(origin.then(later) for origin in origins)


def _selected(expression: str, rows: _Rows, listed: _Rows) -> _Rows:
    """Add one listed column."""
    if expression == EVERY_COLUMN:
        return replace(listed, columns={**listed.columns, **rows.columns})
    name, known = selected_as(expression, list(rows.columns))
    origins = listed.columns.get(name, NONE) | rows.of(expression)
    complete = listed.complete and known
    return replace(listed, columns={**listed.columns, name: origins}, complete=complete)


def _joined(lookup: Lookup, rows: _Rows, reference: _Rows) -> _Rows:
    pairs = plain.join_pairs(lookup.on, list(rows.columns), list(reference.columns))
    shared = {right.lower() for _, right in pairs} if plain.shares_names(lookup.on) else set()
    added = {n: o for n, o in reference.columns.items() if n.lower() not in shared}
    order = plain.joined_columns(lookup.on, list(rows.columns), list(added))
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


def _looked(lookup: Lookup, rows: _Rows, reference: _Rows) -> _Looked:
    pairs = plain.join_pairs(equalities(lookup), list(rows.columns), list(reference.columns))
    return _Looked(reference.columns, reference.rows | _keys(pairs, rows, reference))
