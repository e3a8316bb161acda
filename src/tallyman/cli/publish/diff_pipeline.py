"""`tallyman diff-pipeline`: compare two versions of the pipeline in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tallyman.cli.terminal.options import AsJson, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out

if TYPE_CHECKING:
    from tallyman.control.pipeline.compare_versions import DeclarationChange, PipelineDifference

_HELP = "A version: its hash, a prefix of it, 'active', or 'now' for the project's files."


def diff_pipeline(
    before: Annotated[str, typer.Argument(help=_HELP)] = "active",
    after: Annotated[str, typer.Argument(help=_HELP)] = "now",
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Compare two versions of the pipeline in words.

    Shows what changed, and which rows are made again because of it. Starts no Spark and reads no
    data; `tallyman plan` compares the files with the rows that are there. The exit code is 0 even
    if the versions differ.

    Example:  tallyman diff-pipeline 4f2a now
    """
    found = opened(project).pipelines.compare(before, after)
    if json_output:
        as_json(found.to_json())
    else:
        _show(found)


def _show(found: PipelineDifference) -> None:
    out.print(f"pipeline {found.before[:8]} → {found.after[:8]}")
    if not found.changes:
        out.print("the same plan: nothing changes")
        return
    for change in found.changes:
        _show_change(change)
    again = ", ".join(found.made_again)
    out.print(f"rows made again:  {again or 'none'}")


def _show_change(change: DeclarationChange) -> None:
    item = change.item
    named = f"{item.kind} {item.name}"
    if not item.edits:
        word = "is new" if item.change == "added" else "is removed"
        out.print(f"{named} {word}: {change.effect}")
        return
    out.print(f"{named}: {change.effect}")
    for edit in item.edits:
        out.print(f"  {edit}")
