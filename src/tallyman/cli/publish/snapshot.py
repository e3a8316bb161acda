"""`tallyman snapshot`: give a version a permanent name."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, AtVersion, DatasetName, ProjectFolder, opened
from tallyman.cli.terminal.output import as_json, out


def snapshot(
    dataset: DatasetName,
    alias: Annotated[str, typer.Argument(help="The snapshot's name; read it like a dataset.")],
    version: AtVersion = None,
    project: ProjectFolder = None,
    json_output: AsJson = False,
) -> None:
    """Give a version a permanent name, so that it is never removed.

    Example:  tallyman snapshot daily_revenue revenue_2026_q1
    """
    found = opened(project).snapshot(dataset, alias, version=version)
    if json_output:
        as_json({"alias": alias, "dataset": dataset, "version": found.ordinal})
    else:
        out.print(f"{alias} now permanently names {dataset} v{found.ordinal}")
