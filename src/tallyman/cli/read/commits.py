"""`tallyman commits`: list commits, newest first."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tallyman.cli.terminal.options import AsJson, Limit, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, short, table
from tallyman.domain.version.commit import Commit


def commits(
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="List only commits of this dataset.")
    ] = None,
    limit: Limit = 20,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """List commits: who moved which dataset to which version."""
    rows = [_commit(commit) for commit in opened(project).commits(dataset, limit=limit)]
    if json_output:
        as_json(rows)
        return
    for row in rows:
        row["commit"], row["moved"] = short(row["id"]), ", ".join(row["moved"])
    table(rows, ("commit", "at", "kind", "actor", "moved", "message"))


def _commit(commit: Commit) -> dict[str, Any]:
    return {
        "id": str(commit.id),
        "at": f"{commit.created_at:%Y-%m-%dT%H:%M:%SZ}",
        "kind": commit.kind,
        "actor": commit.actor,
        "parent": str(commit.parent) if commit.parent else None,
        "run": commit.details.get("run"),
        "message": commit.message,
        "pipeline_version": commit.pipeline_version,
        "moved": [str(move) for move in commit.moves],
        "versions": {move.dataset: move.ordinal for move in commit.moves},
    }
