"""`tallyman rollback`: publish older content again."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, Message, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out, published
from tallyman.cli.terminal.result import commit_facts


def rollback(
    dataset: Annotated[
        str | None, typer.Argument(help="One dataset; with --to.", show_default=False)
    ] = None,
    to: Annotated[int | None, typer.Option("--to", help="The version to go back to.")] = None,
    commit: Annotated[
        str | None,
        typer.Option("--commit", "-c", help="Everything as it was after this commit."),
    ] = None,
    message: Message = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Go back, in one commit: all datasets and the pipeline to a commit, or one to a version.

    History only grows: the versions in between stay, and going back can itself be undone. Example:
    tallyman rollback --commit 1f0c22a1   or   tallyman rollback daily_revenue --to 6
    """
    made = opened(project).rollback(dataset, to=to, commit=commit, message=message)
    if json_output:
        as_json(commit_facts(made))
    else:
        out.print(published(made) if made else "everything is like that already", markup=False)


def register(app: typer.Typer, panel: str) -> None:
    app.command(rich_help_panel=panel)(rollback)
