"""Mutations applied to tables, without Spark: all statements pass, or no file is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from tallyman.domain.version.mutation import (
    DeleteRows,
    Insert,
    Statement,
    UpdateRows,
    Where,
    where_path,
)
from tallyman.domain.version.table import Table
from tallyman.engine.files.duck import quoted
from tallyman.engine.table.condition import Condition, condition
from tallyman.engine.table.state import FRAGMENT, GIVEN, NEW, Changed, Held, TableState, shown
from tallyman.engine.table.values import arrow_type, typed
from tallyman.errors import InvalidMutation, Problem
from tallyman.errors.wording import first_line


def mutate(
    held: Mapping[str, Held], statements: Sequence[Statement], folder: Callable[[str], Path]
) -> dict[str, Changed]:
    """Apply the statements; return the tables that really changed. `held` has every needed table.

    Raises MutationRefused, KeyConflict or InvalidMutation at the first statement that is not
    possible; then `folder` was not called.
    """
    whole = {s.dataset for s in statements if not isinstance(s, Insert) or held[s.dataset].is_full}
    with TableState(held, whole) as state:
        state.lock()
        for number, statement in enumerate(statements, 1):
            state.statement = number
            match statement:
                case Insert():
                    _insert(state, statement)
                case UpdateRows():
                    _update(state, statement, where_path(number, statement))
                case DeleteRows():
                    _delete(state, statement, where_path(number, statement))
        state.statement = None
        state.check_counts()
        changed = [name for name in held if state.changes[name].is_any]
        return {name: state.written(name, folder(name)) for name in changed}


def _insert(state: TableState, statement: Insert) -> None:
    table = state.table(statement.into)
    _check_columns(state, table, [name for row in statement.rows for name in row])
    rows = _typed_rows(state, table, statement.rows)
    columns = [
        pa.array([row.get(column.name) for row in rows], arrow_type(column.type))
        for column in table.columns
    ]
    numbers = pa.array(range(1, len(rows) + 1), pa.int64())
    given = pa.table([*columns, numbers], names=[*table.names, "_tm_row"])
    state.connection.register(GIVEN, given)
    state.insert(statement.into)


def _update(state: TableState, statement: UpdateRows, path: str) -> None:
    table, own = state.table(statement.dataset), state.name(statement.dataset)
    chosen = _condition(state, statement.dataset, statement.where, path)
    _check_columns(state, table, list(statement.set))
    values = _typed_rows(state, table, [statement.set])[0]
    _give_values(state, table, values)
    pairs = [(quoted(name), f"{GIVEN}._tm_{place}") for place, name in enumerate(values)]
    differs = " OR ".join(f"{own}.{column} IS DISTINCT FROM {new}" for column, new in pairs)
    which = f"WHERE {chosen.sql} IS TRUE AND ({differs})"
    rows = _touch(state, statement.dataset, f"FROM {own}, {GIVEN} {which}", chosen, path)
    if not rows:
        return
    nulls = [n for n, value in values.items() if value is None and not table.column(n).nullable]
    if nulls:
        raise state.refused(table.name, "not_null", rows, [f"{name} = NULL" for name in nulls])
    sets = ", ".join(f"{column} = {new}" for column, new in pairs)
    state.ask(f"UPDATE {own} SET {sets}, {FRAGMENT} = {NEW} FROM {GIVEN} {which}", chosen.values)
    state.changes[table.name].updated += rows
    state.check_rules(table.name, own, values.keys())
    state.check_references(table.name, own, values.keys())
    if not values.keys().isdisjoint(table.key):
        state.check_key(table.name, own)
        state.check_referrers(table.name)


def _delete(state: TableState, statement: DeleteRows, path: str) -> None:
    own = state.name(statement.dataset)
    chosen = _condition(state, statement.dataset, statement.where, path)
    which = f"FROM {own} WHERE {chosen.sql} IS TRUE"
    rows = _touch(state, statement.dataset, which, chosen, path)
    if rows:
        state.ask(f"DELETE {which}", chosen.values)
        state.changes[statement.dataset].deleted += rows
        state.check_referrers(statement.dataset)


def _condition(state: TableState, dataset: str, where: Where, path: str) -> Condition:
    """Translate a condition, and check that it is true, false or NULL for each row."""
    chosen = condition(where, state.table(dataset), path)
    query = f"SELECT {chosen.sql} FROM {state.name(dataset)} LIMIT 0"
    try:
        described = state.connection.sql(query, params=list(chosen.values)).types
    except duckdb.Error as error:
        raise _unusable(path, error) from None
    if str(described[0]) != "BOOLEAN":
        message = f"this is a value of type {described[0]}, not a condition"
        raise InvalidMutation([Problem(path, message)])
    return chosen


def _touch(state: TableState, dataset: str, which: str, chosen: Condition, path: str) -> int:
    """Touch rows; here only values can be wrong: a text that is not a number, a sum out of
    range.
    """
    try:
        return state.touch(dataset, which, chosen.values)
    except duckdb.Error as error:
        raise _unusable(path, error) from None


def _unusable(path: str, error: duckdb.Error) -> InvalidMutation:
    reason = f"the condition cannot be evaluated: {first_line(error)}"
    return InvalidMutation([Problem(path, reason)])


def _check_columns(state: TableState, table: Table, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in table.names]
    if unknown:
        raise state.unknown_columns(table.name, unknown)


def _typed_rows(
    state: TableState, table: Table, rows: Sequence[Mapping[str, object]]
) -> list[dict[str, object]]:
    kinds = {column.name: column.type for column in table.columns}
    good: list[dict[str, object]] = []
    bad: list[str] = []
    for number, row in enumerate(rows, 1):
        try:
            good.append({name: _fitting(kinds[name], name, value) for name, value in row.items()})
        except ValueError as error:
            bad.append(f"row {number}: {error}")
    if bad:
        raise state.refused(table.name, "type", len(bad), bad)
    return good


def _fitting(kind: str, name: str, value: object) -> object:
    try:
        return typed(kind, value)
    except ValueError as error:
        raise ValueError(f"{name} = {shown(value):.60} as {kind}: {error}") from None


def _give_values(state: TableState, table: Table, values: Mapping[str, object]) -> None:
    """Register values as one row, with names that no condition can use."""
    arrays = [pa.array([v], arrow_type(table.column(name).type)) for name, v in values.items()]
    names = [f"_tm_{place}" for place in range(len(arrays))]
    state.connection.register(GIVEN, pa.table(arrays, names=names))
