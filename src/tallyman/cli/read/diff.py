"""`tallyman diff`: compare two versions of a dataset row by row."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, DatasetName, Limit, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, differing, out


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
        out.print(differing(asdict(row), "{} → {}"))
    left = found.added + found.removed + found.changed - len(found.rows)
    if left > 0:
        out.print(f"… and {left:,} more; increase --limit to see them")
