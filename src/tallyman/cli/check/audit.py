"""`tallyman audit`: list who did what, and when."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, table
from tallyman.registry.audit import Audit


def audit(
    run: Annotated[str | None, typer.Argument(help="List only entries about this run.")] = None,
    limit: Annotated[int, typer.Option(help="List at most this many, newest first.")] = 50,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List who did what, and when, newest first.

    The audit log can only grow: entries are never changed or deleted.
    """
    found = opened(project)
    only = found.find_run(run).id if run else None
    rows = found.database.durably(lambda tx: Audit(tx, found.settings.owner).list(only, limit))
    if json_output:
        as_json(rows)
        return
    for row in rows:
        row["at"] = f"{row['at']:%Y-%m-%d %H:%M:%S}"
    table(rows, ("at", "actor_id", "event_type", "resource", "details"))
