"""`tallyman runs`: list runs, newest first."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out, short, table


def runs(
    project: ProjectFolder = None,
    limit: Annotated[int, typer.Option(help="List at most this many, newest first.")] = 20,
    json_output: AsJson = False,
) -> None:
    """List runs, newest first."""
    rows = [
        {
            "run_id": run.name,
            "run": short(run.name),
            "started_at": f"{run.started_at:%Y-%m-%dT%H:%M:%SZ}",
            "status": run.status.value,
            "actor": run.actor,
            "folder": run.folder,
            "assets": ", ".join(run.params.assets),
        }
        for run in opened(project).runs(limit=limit)
    ]
    if json_output:
        as_json(rows)
    elif rows:
        table(rows, ("run", "started_at", "status", "actor", "folder", "assets"))
    else:
        out.print("no runs yet; start one:  tallyman run")


def register(app: typer.Typer, panel: str) -> None:
    app.command(rich_help_panel=panel)(runs)
