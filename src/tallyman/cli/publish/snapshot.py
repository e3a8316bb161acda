"""`tallyman snapshot`: give a version a permanent name."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyman.cli.terminal.options import AsJson, AtVersion, DatasetName, ProjectFolder, opened
from tallyman.cli.terminal.output import answer


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
    facts = {"alias": alias, "dataset": dataset, "version": found.ordinal}
    answer(facts, f"{alias} now permanently names {dataset} v{found.ordinal}", json_output)
