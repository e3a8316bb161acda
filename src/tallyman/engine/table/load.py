"""Loading of files into tables, without Spark: every row of the file fits, or none is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from tallyman.engine.files.duck import quoted
from tallyman.engine.table.load_file import give_file
from tallyman.engine.table.state import FRAGMENT, GIVEN, NEW, Changed, Held, TableState

Mode = Literal["append", "merge", "overwrite"]


def load(
    held: Mapping[str, Held],
    dataset: str,
    file: Path,
    mode: Mode,
    folder: Callable[[str], Path],
) -> Changed | None:
    """Load a file; None if the table already had the content of the file.

    append adds rows, and an existing key is a KeyConflict; merge also replaces rows with existing
    keys; overwrite also removes rows with keys that are not in the file. A column that the file
    lacks is NULL in each of its rows, also in replaced ones.
    """
    whole = (dataset,) if mode != "append" or held[dataset].is_full else ()
    with TableState(held, whole) as state:
        give_file(state, dataset, file)
        state.lock()
        if mode == "append":
            state.insert(dataset)
        else:
            _merge(state, dataset)
        if mode == "overwrite":
            _remove_others(state, dataset)
        state.check_references(dataset, GIVEN)
        state.check_counts()
        if not state.changes[dataset].is_any:
            return None
        return state.written(dataset, folder(dataset))


def _merge(state: TableState, dataset: str) -> None:
    table, own, change = state.table(dataset), state.name(dataset), state.changes[dataset]
    state.check_given(dataset)
    values = [quoted(name) for name in table.names if name not in table.key]
    differs = " OR ".join(f"{own}.{v} IS DISTINCT FROM {GIVEN}.{v}" for v in values) or "false"
    which = f"WHERE {_same_key(state, dataset)} AND ({differs})"
    change.updated = state.touch(dataset, f"FROM {own}, {GIVEN} {which}")
    if change.updated:
        sets = ", ".join(f"{value} = {GIVEN}.{value}" for value in values)
        state.ask(f"UPDATE {own} SET {sets}, {FRAGMENT} = {NEW} FROM {GIVEN} {which}")
    names = ", ".join(quoted(name) for name in table.names)
    change.inserted = state.add(
        dataset,
        f"SELECT {names}, {NEW} FROM {GIVEN} ANTI JOIN {own} ON {_same_key(state, dataset)}",
    )


def _remove_others(state: TableState, dataset: str) -> None:
    own, change = state.name(dataset), state.changes[dataset]
    which = f"WHERE NOT EXISTS (SELECT 1 FROM {GIVEN} WHERE {_same_key(state, dataset)})"
    change.deleted = state.touch(dataset, f"FROM {own} {which}")
    if change.deleted:
        state.ask(f"DELETE FROM {own} {which}")
        state.check_referrers(dataset)


def _same_key(state: TableState, dataset: str) -> str:
    own, key = state.name(dataset), [quoted(name) for name in state.table(dataset).key]
    return " AND ".join(f"{own}.{name} = {GIVEN}.{name}" for name in key)
