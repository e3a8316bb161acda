"""`tallyman invalidate`: declare results invalid, so that the next run makes them again."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, Partition, ProjectFolder, opened
from tallyman.cli.terminal.output import answer


def invalidate(
    asset: Annotated[str, typer.Argument(help="The asset whose results to declare invalid.")],
    partition: Partition = None,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Also invalidate everything made from it.")
    ] = False,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Declare results invalid, so that the next run makes them again.

    No file is changed or removed.
    """
    count = opened(project).invalidate(asset, partition=partition, cascade=cascade)
    text = f"{count} result{'s' if count != 1 else ''} invalidated"
    answer({"invalidated": count}, text, json_output)
