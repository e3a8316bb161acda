"""`tallyman rollback`: publish the content of older versions again."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, Message, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out, published
from tallyman.cli.terminal.result import commit_facts


def rollback(
    dataset: Annotated[
        str | None, typer.Argument(help="The dataset to roll back, with --to.", show_default=False)
    ] = None,
    to: Annotated[int | None, typer.Option("--to", help="The version to go back to.")] = None,
    commit: Annotated[
        str | None,
        typer.Option("--commit", "-c", help="Roll back all datasets to this commit."),
    ] = None,
    message: Message = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Go back to an older version, or everything to an older commit.

    A rollback is one new commit: the versions in between stay, and it can itself be rolled back.
    With --commit the pipeline version of that commit becomes the active one; its files are not
    needed.

    Example:  tallyman rollback daily_revenue --to 6

    Example:  tallyman rollback --commit 1f0c22a1
    """
    found = opened(project)
    made = found.rollback(dataset, to=to, commit=commit, message=message)
    standing = found.pipelines.standing() if made and commit else None
    if json_output:
        as_json(commit_facts(made) | ({"pipeline": standing.to_json()} if standing else {}))
        return
    out.print(published(made) if made else "nothing to do: the current content is the same")
    if standing and standing.active:
        out.print(f"pipeline version {standing.active[:8]} is active now")
        out.print(standing.runs_from)
