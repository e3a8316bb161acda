"""`tallyman diff`: compare two versions of a dataset row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tallyman.cli.terminal.options import AsJson, DatasetName, Limit, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out

if TYPE_CHECKING:
    from tallyman.query.diff.diff import DiffRow

_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def diff(
    dataset: DatasetName,
    before: Annotated[int, typer.Argument(help="The earlier version's number.")],
    after: Annotated[int, typer.Argument(help="The later version's number.")],
    limit: Limit = 20,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Compare two versions of a dataset row by row.

    Rows are matched by the dataset's key. The exit code is 0 even if the versions differ.

    Example:  tallyman diff daily_revenue 6 7
    """
    found = opened(project).diff(dataset, before, after, limit=limit)
    if json_output:
        as_json(found.to_json())
        return
    how = "" if found.by_key else "   (no unique key: whole rows compared)"
    out.print(
        f"{dataset} v{before} → v{after}   {found.added:,} added   {found.removed:,} removed   "
        f"{found.changed:,} changed{how}"
    )
    for word, columns in (
        ("new columns", found.columns_added),
        ("removed columns", found.columns_removed),
        ("columns with a new type", found.columns_retyped),
    ):
        if columns:
            out.print(f"{word}: {', '.join(columns)}")
    for row in found.rows:
        out.print(f"{_SIGNS[row.kind]} {_line(row)}")
    left = found.added + found.removed + found.changed - len(found.rows)
    if left > 0:
        out.print(f"… and {left:,} more; increase --limit to see them")


def _line(row: DiffRow) -> str:
    named = ", ".join(f"{name}={value}" for name, value in row.key.items())
    if row.before and row.after:
        before, after = row.before, row.after
        moved = (f"{name}: {before.get(name)} → {after.get(name)}" for name in row.columns)
        return f"{named}   {', '.join(moved)}"
    rest = {k: v for k, v in (row.after or row.before or {}).items() if k not in row.key}
    shown = ", ".join(f"{name}={value}" for name, value in rest.items())
    return f"{named}   {shown}" if named else shown
