"""Planted bugs in what this process reads and writes: tables, and lines of dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tallyman.engine.expressions.column_names import KEY
from tallyman.engine.segment.ended import EndedRows, at

Here = Callable[[Any], Any]


def lose_here(column: str, value: str) -> Here:
    """The same as `lose`, in a table of this process."""

    def lost(rows: pa.Table) -> pa.Table:
        if column.partition(".")[0] not in rows.column_names:
            return rows
        kept = [found != value for found in at(rows, column).to_pylist()]
        return rows if all(kept) else rows.filter(pa.array(kept))

    return lost


def double_here(column: str, value: str) -> Here:
    def doubled(rows: pa.Table) -> pa.Table:
        if column.partition(".")[0] not in rows.column_names:
            return rows
        again = [found == value for found in at(rows, column).to_pylist()]
        return pa.concat_tables([rows, rows.filter(pa.array(again))]) if any(again) else rows

    return doubled


def change_here(column: str, old: str, new: str) -> Here:
    def changed(rows: pa.Table) -> pa.Table:
        if column not in rows.column_names or old not in rows[column].to_pylist():
            return rows
        values = [new if found == old else found for found in rows[column].to_pylist()]
        place = rows.column_names.index(column)
        return rows.set_column(place, rows.field(column), pa.array(values, rows[column].type))

    return changed


def forget_here(key: str) -> Here:
    """A row that ended is counted, and then forgotten."""

    def forgotten(ended: EndedRows | None) -> EndedRows | None:
        if ended is None or ended.rows is None or key not in ended.rows[KEY].to_pylist():
            return ended
        return replace(ended, rows=lose_here(KEY, key)(ended.rows))

    return forgotten


def lose_line(text: str) -> Here:
    def lost(lines: list[str]) -> list[str]:
        kept = [line for line in lines if text not in line]
        return lines if len(kept) == len(lines) else kept

    return lost


def double_line(text: str) -> Here:
    def doubled(lines: list[str]) -> list[str]:
        again = [line for line in lines if text in line]
        return [*lines, *again] if again else lines

    return doubled


def change_line(old: str, new: str) -> Here:
    def changed(lines: list[str]) -> list[str]:
        found = [line.replace(old, new) for line in lines]
        return lines if found == lines else found

    return changed
